"""The timer of a purgatory: one that it is given, or one of its own."""

from hwheel.base_timer import BaseTimer
from hwheel.system_timer import SystemTimer


def timer_argument(name: str, timer: BaseTimer | None, reaper: bool) -> BaseTimer:
    """The given timer, or a SystemTimer; without a reaper one that has no thread at all."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {type(name).__name__}")
    if timer is None:
        return SystemTimer(name, reaper=reaper, executor=None if reaper else "inline")
    if not isinstance(timer, BaseTimer):
        raise TypeError(f"timer must be a SystemTimer, a ManualTimer or None, not {type(timer).__name__}")
    return timer
