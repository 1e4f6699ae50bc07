"""Containers built on timers: a dict whose entries expire, and a queue whose items become available at a deadline."""

from typing import Any

from hwheel.timers.base import BaseTimer
from hwheel.timers.system import SystemTimer

_timers: dict[str, BaseTimer] = {}


def shared_timer(name: str, **options: Any) -> BaseTimer:
    """Return the process's timer of this name, for containers that are given none. It is never closed.

    Two threads may create it at once; one of the two timers is then dropped, before it has started a thread.
    """
    timer = _timers.get(name)
    return _timers.setdefault(name, SystemTimer(name, **options)) if timer is None else timer
