"""ManualTimer: a timer in virtual time, for tests of code that uses timers."""

from typing import Any, Literal, SupportsFloat, SupportsIndex

from hwheel.timers.base import BaseTimer, OnError, OnMissed, begin_timer, report
from hwheel.timers.dump import Loaded, Write, begin_dump, load_timer
from hwheel_core import DEFAULT_WHEEL_SIZE, TimerTask


class ManualTimer(BaseTimer):
    """A SystemTimer for tests, without threads: only advance() and advance_to() move its clock.

    Callbacks run inside advance(), in the thread that called it, in order, as if time flowed:
    inside a callback time() is its tick, and what a callback adds runs in the same advance if it
    falls due within it. What is due at once waits for the next advance, if only `advance(0)`.

    start_ms: where the clock starts. on_error: "raise", which SystemTimer does not have: advance()
    raises what a callback raises, so that a test notices. The clock then stands at the tick of that
    callback, and what has not run yet runs in the next advance. None or a function: as there, but
    KeyboardInterrupt and SystemExit are always raised. All else: see SystemTimer.

    Any thread may add and cancel; one at a time advances.

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
        on_error: OnError | Literal["raise"] | None = "raise",
        on_missed: OnMissed | None = None,
    ) -> None:
        # Another string than "raise" is refused by begin_timer, as whatever else cannot be called.
        reports_to: Any = None if isinstance(on_error, str) and on_error == "raise" else on_error
        begin_timer(self, name, reports_to, on_missed)
        self._on_error: OnError | None = reports_to
        self._raises = reports_to is not on_error
        self._on_missed = on_missed
        self._set_up(tick_ms, wheel_size, start_ms, "manual", bool(never_early), max_pending)
        self._set_started()

    def advance(self, seconds: float | SupportsFloat | SupportsIndex) -> None:
        """Lets so many seconds pass, rounded up to a whole ms, and runs what falls due in them.
        RuntimeError: an advance is under way, in a callback that calls this, or in another
        thread. O(1) for each tick in which something runs.
        """
        self._advance_by(seconds)

    def advance_to(self, when: float | SupportsFloat | SupportsIndex) -> None:
        """Advances until time() is `when`, in seconds. ValueError: that is over."""
        self._advance_to(when)

    def load(self, data: bytes, *, overdue: Literal["run", "return"] = "run", now: float | None = None) -> Loaded:
        """As SystemTimer.load()."""
        return load_timer(self, data, overdue, now)

    def _end_threads(self, run_pending: bool, timeout: float | None) -> None:
        if run_pending:
            self._make_all_ready()
            self._run_ready(True)
        self._stop(False)

    def _begin_dump(self, now: float | None) -> Write:
        return begin_dump(self, now)

    def _report(self, source: Any, error: BaseException) -> None:
        report(self._on_error, source, error)

    def _miss(self, task: TimerTask) -> None:
        if self._on_missed is not None:
            self._on_missed(task)

    def _start(self) -> None:
        """In a forked child, where the timer goes on as it was."""
        self._after_fork()
        self._set_started()
