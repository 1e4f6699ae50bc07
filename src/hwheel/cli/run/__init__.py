"""``hwheel run``: any program with its timers on the wheel, without an edit."""
