"""ManualTimer: a timer in virtual time, for tests of code that uses timers."""

from typing import Any, Literal, SupportsFloat, SupportsIndex

from hwheel.timers.base import BaseTimer, OnError, OnMissed, begin_timer, report
from hwheel.timers.dump import Loaded, Write, begin_dump, load_timer
from hwheel_core import DEFAULT_WHEEL_SIZE, TimerTask


class ManualTimer(BaseTimer):
    """A SystemTimer for tests: it has no threads, and only ``advance()`` and ``advance_to()`` move its clock.

    Callbacks run inside ``advance()``, in the calling thread, in the order of their deadlines. Inside a callback,
    ``time()`` is the time of its tick. A task that a callback adds runs in the same ``advance()`` if its deadline is
    reached there. A task without delay waits for the next call, for example ``advance(0)``.

    Args:
        name: Shown in the repr.
        tick_ms: The resolution in milliseconds.
        wheel_size: The number of buckets of a level.
        start_ms: The time at which the clock starts.
        never_early: Round deadlines up to the next tick. False: round down, as Kafka does.
        max_pending: Refuse to hold more pending timers than this, with TimerFull. Default: no limit.
        on_error: ``"raise"``, the default: ``advance()`` raises the exception of a callback, so that the test notices.
            The clock then shows the tick of that callback, and the remaining tasks run in the next ``advance()``. A
            function or None: as for SystemTimer, except that KeyboardInterrupt and SystemExit are always raised.
        on_missed: As for SystemTimer.

    Thread-safe: any thread may add and cancel. Only one thread at a time can advance the clock.

    Example:
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
        # begin_timer refuses any other string, because it is not callable.
        reports_to: Any = None if isinstance(on_error, str) and on_error == "raise" else on_error
        begin_timer(self, name, reports_to, on_missed)
        self._on_error: OnError | None = reports_to
        self._raises = reports_to is not on_error
        self._on_missed = on_missed
        self._set_up(tick_ms, wheel_size, start_ms, "manual", bool(never_early), max_pending)
        self._set_started()

    def advance(self, seconds: float | SupportsFloat | SupportsIndex) -> None:
        """Move the clock forward by `seconds`, rounded up to a whole millisecond, and run the tasks that expire.

        Raises:
            RuntimeError: Another thread is advancing the clock, or a callback of this timer makes this call.

        O(1) for each tick in which a task runs.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> task = timer.call_later(1, print, "one second")
            >>> timer.advance(1)
            one second
        """
        self._advance_by(seconds)

    def advance_to(self, when: float | SupportsFloat | SupportsIndex) -> None:
        """Advance the clock until ``time()`` is `when`, in seconds.

        Raises:
            ValueError: That time has passed.
            RuntimeError: As for ``advance()``.

        Example:
            >>> from hwheel import ManualTimer
            >>> timer = ManualTimer()
            >>> timer.advance_to(60)
            >>> timer.time()
            60.0
        """
        self._advance_to(when)

    def load(self, data: bytes, *, overdue: Literal["run", "return"] = "run", now: float | None = None) -> Loaded:
        """Add the tasks of a ``dump()``. See ``SystemTimer.load()``."""
        return load_timer(self, data, overdue, now)

    def _end_threads(self, run_pending: bool, timeout: float | None) -> None:
        if run_pending:
            self._make_all_ready()
            self._run_ready(True)
        self._stop(False)

    def _begin_dump(self, now: float | None) -> Write:
        return begin_dump(self, now)

    def _report_error(self, source: Any, error: BaseException) -> None:
        report(self._on_error, source, error)

    def _report_missed(self, task: TimerTask) -> None:
        if self._on_missed is not None:
            self._on_missed(task)

    def _start_threads(self) -> None:
        """Start no threads. In a forked child, make the timer usable with the tasks that it has."""
        self._after_fork()
        self._set_started()
