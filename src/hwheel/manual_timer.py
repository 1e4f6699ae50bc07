"""ManualTimer: a timer in virtual time, for tests of code that uses timers."""

import threading
from collections.abc import Callable
from typing import Any

from hwheel_core import DEFAULT_WHEEL_SIZE, TimerClosed

from hwheel.arguments import check_timeout, whole_ms
from hwheel.base_timer import BaseTimer


class ManualTimer(BaseTimer):
    """ManualTimer(name="timer", *, tick_ms=1, wheel_size=..., start_ms=0, never_early=True, max_pending=None, on_error=None)

    The face of SystemTimer on a clock that only `advance()` moves. Callbacks run inside `advance()`, in the thread that
    called it, in order, as if time flowed: inside a callback `time()` is its tick, and what a callback adds runs in the
    same advance if it falls due within it. What is due at once waits for the next advance, if only `advance(0)`.

    Arguments: as SystemTimer's; start_ms is where the clock starts.

    Thread-safety: timers may be added and cancelled from any thread; one thread at a time advances.

    >>> from hwheel import ManualTimer
    >>> timer = ManualTimer()
    >>> task = timer.call_every(0.1, lambda: print(timer.time()))
    >>> timer.advance(250)
    0.1
    0.2
    >>> task.cancel()
    True
    """

    def __init__(
        self,
        name: str = "timer",
        *,
        tick_ms: int = 1,
        wheel_size: int = DEFAULT_WHEEL_SIZE,
        start_ms: int = 0,
        never_early: bool = True,
        max_pending: int | None = None,
        on_error: Callable[[Any, BaseException], object] | None = None,
    ) -> None:
        super().__init__(name, on_error)
        self._advancing = threading.Lock()
        self._set_up(tick_ms, wheel_size, start_ms, "manual", bool(never_early), max_pending)
        self._set_started(True)

    def advance(self, ms: int) -> None:
        """Lets `ms` milliseconds pass and runs what falls due in them.

        Raises:
            TypeError, ValueError, OverflowError: ms is no int, negative, or leads beyond 64 bits.
            TimerClosed: the timer is closed.
            RuntimeError: an advance is under way, in a callback of which this was called, or in another thread.

        Runtime complexity: O(1) for each tick in which something runs, whatever lies in between.
        """
        ms = whole_ms(ms, "ms")
        if self.closed:
            raise TimerClosed("the timer is closed")
        if not self._advancing.acquire(blocking=False):
            raise RuntimeError("an advance is under way already")
        try:
            self._advance_by(ms)
        finally:
            self._advancing.release()

    def close(self, *, run_pending: bool = False, timeout: float | None = None) -> list[Any]:
        """Refuses timers from now on, and returns what had not run: tasks (cancelled, with callback and args) and batches.

        Arguments:
            run_pending: run what is pending now, in order, instead; then nothing is left to return.
            timeout: for the face of SystemTimer; nothing here takes time but the callbacks.

        Closing again returns an empty list.
        """
        check_timeout(timeout)
        if not self._close():
            return []
        if run_pending:
            self._make_all_ready()
            self._run_ready()
        self._stop(False)
        not_run: list[Any] = self._drop_all()
        return not_run

