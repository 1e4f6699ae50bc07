"""The ``hwheel`` command. Commands import rich only when they draw."""
