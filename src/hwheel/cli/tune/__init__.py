"""``hwheel tune``: find the tick, wheel size, and timeout that suit a log of timers."""
