"""The check of the core's invariants."""

import hwheel_core


def check_invariants(*things):
    """In a debug build, check the invariants of timers, wheels, groups, containers, or timers of event loops."""
    if hwheel_core.DEBUG:
        for thing in things:
            hwheel_core.debug_check(thing)
