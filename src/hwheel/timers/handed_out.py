"""What an executor runs that is not the timer's own."""

import functools
import threading
from contextvars import Context
from typing import Any

from hwheel_core import call_for_result


def run_handed_out(handed_out: Any) -> Any:
    """handed_out: the core's HandedOut, which runs the callback and reports its exception in the thread in which it
    happens. To another process no timer can be sent; there it is the call alone, and the exception goes home with the
    future."""
    if isinstance(handed_out, functools.partial):
        result = Context().run(handed_out)
        return result if handed_out.func is call_for_result else None
    else:
        with _RunningFor(handed_out.timer):
            handed_out.run()
            return None


def runs_here(timer: Any) -> bool:
    """Whether this thread is inside a callback of the timer, run by a foreign executor."""
    return any(one is timer for one in _running_for.timers)


class _Timers(threading.local):
    def __init__(self) -> None:
        self.timers: tuple[Any, ...] = ()


_running_for = _Timers()


class _RunningFor:
    """Inside the block, runs_here(timer) is true."""

    def __init__(self, timer: Any) -> None:
        self._timer = timer
        self._before = _running_for.timers

    def __enter__(self) -> None:
        _running_for.timers = (*self._before, self._timer)

    def __exit__(self, *exc_info: object) -> None:
        _running_for.timers = self._before
