"""``hwheel top``: watch the timers of a running program."""
