"""`hwheel tune`: which tick, wheel size and timeout suit a log of timers; computed in hwheel.tune."""
