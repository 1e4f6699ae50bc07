"""The timers of one loop: what of them need not be fast. asyncio's reports and the checks of its debug mode."""

import asyncio
import inspect
import logging
import sys
from asyncio import format_helpers
from collections.abc import Callable
from traceback import StackSummary
from types import FrameType

from hwheel_core import LoopHandle, LoopTimers, set_loop_handle_class

set_loop_handle_class(asyncio.TimerHandle)

logger = logging.getLogger("asyncio")
KNOWS_DEBUG = "debug" in inspect.signature(format_helpers._format_callback_source).parameters
OWN_FILES = (__file__.removesuffix("timers.py"),)


class WheelTimers(LoopTimers):
    """The wheel of a loop, with asyncio's manners."""

    def _show(self, handle: LoopHandle) -> str:
        info = ["TimerHandle"]
        if handle._cancelled:
            info.append("cancelled")
        info.append(f"when={handle._when}")
        if handle._callback is not None:
            info.append(self._source(handle))
        if handle._source_traceback:
            frame = handle._source_traceback[-1]
            info.append(f"created at {frame[0]}:{frame[1]}")
        return f"<{' '.join(info)}>"

    def _source(self, handle: LoopHandle) -> str:
        """As asyncio names a callback. From Python 3.13 on it shows arguments in debug mode only."""
        options = {"debug": self.debug} if KNOWS_DEBUG else {}
        return str(format_helpers._format_callback_source(handle._callback, handle._args or (), **options))

    def _report(self, handle: LoopHandle, error: BaseException) -> None:
        """An exception in a callback goes where asyncio sends it."""
        context = {"message": f"Exception in callback {self._source(handle)}", "exception": error, "handle": handle}
        if handle._source_traceback:
            context["source_traceback"] = handle._source_traceback
        loop = self.loop or asyncio.get_running_loop()      # the callback may have closed a Timeouts
        loop.call_exception_handler(context)

    # --- debug mode ------------------------------------------------------------------------------------------------

    def _check_call(self, callback: Callable[..., object]) -> None:
        """Right thread, right kind of callback."""
        if self.loop.is_running() and asyncio._get_running_loop() is not self.loop:
            raise RuntimeError("Non-thread-safe operation invoked on an event loop other than the current one")
        if asyncio.iscoroutine(callback) or asyncio.iscoroutinefunction(callback):
            raise TypeError("coroutines cannot be used with call_later() and call_at()")
        if not callable(callback):
            raise TypeError(f"a callable object was expected by call_later() and call_at(), got {callback!r}")

    def _stack(self) -> StackSummary:
        """Where the handle is made, without our own frames."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(OWN_FILES):
            frame = frame.f_back
        return format_helpers.extract_stack(frame)

    def _time_call(self, handle: LoopHandle, seconds: float) -> None:
        if seconds >= self.loop.slow_callback_duration:
            logger.warning("Executing %s took %.3f seconds", str(handle), seconds)
