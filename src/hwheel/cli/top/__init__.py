"""`hwheel top`: a live look at the timers of a running program."""
