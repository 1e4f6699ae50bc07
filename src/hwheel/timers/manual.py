"""ManualTimer: a timer in virtual time, for tests of code that uses timers."""

from collections.abc import Callable
from typing import Any, Literal

from hwheel_core import DEFAULT_WHEEL_SIZE

from hwheel.timers.base import BaseTimer


class ManualTimer(BaseTimer):
    """ManualTimer(name="timer", *, tick_ms=1, wheel_size=..., start_ms=0, never_early=True, max_pending=None,
                on_error="raise")

    The face of SystemTimer on a clock that only `advance()` and `advance_to()` move. Callbacks run inside `advance()`,
    in the thread that called it, in order, as if time flowed: inside a callback `time()` is its tick, and what a
    callback adds runs in the same advance if it falls due within it. What is due at once waits for the next advance, if
    only `advance(0)`.

    Arguments: as SystemTimer's; start_ms is where the clock starts. on_error is "raise", which SystemTimer does not
    have: an exception in a callback is raised by advance(), where a test notices it. The clock stands at the tick of
    that callback then, and what has not run yet does so in the next advance. With on_error=None or a function it is as
    there; but KeyboardInterrupt and SystemExit are always raised.

    Thread-safety: timers may be added and cancelled from any thread; one thread at a time advances.

    >>> from hwheel import ManualTimer
    >>> timer = ManualTimer()
    >>> task = timer.call_every(0.1, lambda: print(timer.time()))
    >>> timer.advance(0.25)
    0.1
    0.2
    >>> task.cancel()
    True
    """

    __module__ = "hwheel"

    def __init__(
        self,
        name: str = "timer",
        *,
        tick_ms: int = 1,
        wheel_size: int = DEFAULT_WHEEL_SIZE,
        start_ms: int = 0,
        never_early: bool = True,
        max_pending: int | None = None,
        on_error: Callable[[Any, BaseException], object] | Literal["raise"] | None = "raise",
    ) -> None:
        raises = isinstance(on_error, str) and on_error == "raise"
        super().__init__(name, None if raises else on_error)        # type: ignore[arg-type]
        self._raises = raises
        self._set_up(tick_ms, wheel_size, start_ms, "manual", bool(never_early), max_pending)
        self._set_started()

    def advance(self, seconds: float) -> None:
        """Lets so many seconds pass and runs what falls due in them.

        Arguments:
            seconds: an int or a float, rounded up to a whole millisecond, as deadlines are.
        Raises:
            TypeError, ValueError, OverflowError: it is no number, negative, NaN, infinite, or leads beyond 64 bits of
                ms.
            TimerClosed: the timer is closed.
            RuntimeError: an advance is under way, in a callback of which this was called, or in another thread.
            What a callback raises, see on_error.

        Runtime complexity: O(1) for each tick in which something runs, whatever lies in between.
        """
        self._advance_by(seconds)

    def advance_to(self, when: float) -> None:
        """Lets time pass until the clock shows `when`, in seconds as `time()` gives them.

        Raises:
            ValueError: that is over; the clock does not go back. Otherwise as `advance`.
        """
        self._advance_to(when)

    def _end_threads(self, run_pending: bool, timeout: float | None) -> None:
        if run_pending:
            self._make_all_ready()
            self._run_ready(True)
        self._stop(False)

    def _start(self) -> None:
        """In a forked child, where the timer goes on as it was."""
        self._after_fork()
        self._set_started()
