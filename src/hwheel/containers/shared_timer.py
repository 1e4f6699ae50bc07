"""The timers of containers that are given none: one for all dicts of the process, and one for all queues.

They are made when the first container asks for them, and never closed. Making one starts no thread, so it does no harm
if two threads make one at once and one of the two is dropped.
"""

from typing import Any

from hwheel.timers.base import BaseTimer
from hwheel.timers.system import SystemTimer

_timers: dict[str, BaseTimer] = {}


def shared_timer(name: str, **options: Any) -> BaseTimer:
    """The process's timer of this name."""
    timer = _timers.get(name)
    return _timers.setdefault(name, SystemTimer(name, **options)) if timer is None else timer
