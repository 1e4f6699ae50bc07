"""The Python part of a loop's timers: asyncio's reports and the checks of its debug mode."""

import asyncio
import contextlib
import inspect
import sys
import weakref
from asyncio import format_helpers
from collections.abc import Callable
from traceback import StackSummary
from types import FrameType
from typing import Any, Self

from hwheel_core import LoopHandle, LoopTimers, Timeout, set_loop_call_class, set_loop_clock, set_loop_handle_class

set_loop_handle_class(asyncio.TimerHandle)
set_loop_call_class(asyncio.Handle)
if sys.platform == "linux" and getattr(asyncio.BaseEventLoop.time, "__module__", None) == "asyncio.base_events":
    set_loop_clock(asyncio.BaseEventLoop.time, vars(asyncio.base_events))

# Before Python 3.14, asyncio uses its own function, which 3.14 deprecates.
is_coroutine_function = inspect.iscoroutinefunction if sys.version_info >= (3, 14) else asyncio.iscoroutinefunction
KNOWS_DEBUG = "debug" in inspect.signature(format_helpers._format_callback_source).parameters
OWN_FOLDER = __file__.removesuffix("timers.py")


_living: dict[weakref.ref[Any], None] = {}  # of WheelTimers


def loop_timers() -> list["WheelTimers"]:
    """Return the timers of all open loops in the process."""
    found: list[WheelTimers | None] = [reference() for reference in [*_living]]
    return [timers for timers in found if timers is not None and timers.loop is not None]  # pyright: ignore[reportUnnecessaryComparison]


def forget(reference: weakref.ref[Any]) -> None:
    _living.pop(reference, None)


class WheelTimers(LoopTimers):
    """The timers of a loop, with asyncio's reports and checks."""

    def __new__(cls, loop: asyncio.AbstractEventLoop, base: object) -> Self:
        timers = super().__new__(cls, loop, base)
        _living[weakref.ref(timers, forget)] = None
        return timers

    def _show(self, handle: LoopHandle) -> str:
        return f"<{' '.join(self._describe(handle))}>"

    def _describe(self, handle: LoopHandle) -> list[str]:
        info = ["TimerHandle"]
        if handle._cancelled:
            info.append("cancelled")
        info.append(f"when={handle._when}")
        if handle._callback is not None:
            info.append(self._source(handle))
        if handle._source_traceback:
            frame = handle._source_traceback[-1]
            info.append(f"created at {frame[0]}:{frame[1]}")
        return info

    def _source(self, handle: LoopHandle) -> str:
        """Return asyncio's description of the callback, from Python 3.13 on with the arguments only in debug mode."""
        options = {"debug": self.debug} if KNOWS_DEBUG else {}
        callback = handle._callback._on_timeout if isinstance(handle._callback, Timeout) else handle._callback
        return str(format_helpers._format_callback_source(callback, handle._args or (), **options))

    def _report(self, handle: LoopHandle, error: BaseException) -> None:
        """Pass an exception in a callback to the loop's exception handler."""
        context = {"message": f"Exception in callback {self._source(handle)}", "exception": error, "handle": handle}
        if handle._source_traceback:
            context["source_traceback"] = handle._source_traceback
        loop = self.loop or asyncio.get_running_loop()  # the callback may have closed a Timeouts
        loop.call_exception_handler(context)

    # --- debug mode ------------------------------------------------------------------------------------------------

    def _check_call(self, callback: Callable[..., object]) -> None:
        """Raise RuntimeError in a thread other than the loop's, and TypeError for a callback of the wrong type."""
        if self.loop.is_running() and asyncio._get_running_loop() is not self.loop:
            raise RuntimeError("Non-thread-safe operation invoked on an event loop other than the current one")
        if asyncio.iscoroutine(callback) or is_coroutine_function(callback):
            raise TypeError("coroutines cannot be used with call_later() and call_at()")
        if not callable(callback):
            raise TypeError(f"a callable object was expected by call_later() and call_at(), got {callback!r}")

    def _stack(self) -> StackSummary:
        """Return the caller's stack, without frames of this package."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
            frame = frame.f_back
        return format_helpers.extract_stack(frame)

    def _name(self, loops_handle: Any, handle: LoopHandle) -> None:
        """In debug mode, make the loop's handle look like `handle`, for which it was created."""
        if self.debug:
            with contextlib.suppress(Exception):  # uvloop's handles lack these fields; a repr() may fail
                loops_handle._source_traceback = handle._source_traceback
                loops_handle._repr = repr(handle)
