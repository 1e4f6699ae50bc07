"""A SystemTimer that reports its ended timers to a Recorder.

It is a class of its own, so that only programs that record pay for it. The record follows the decisions of the core: a
cancel() that returned True, or an expiry. Deadline and delay are read from the task afterwards, when they are final. An
exception of a signal handler, such as KeyboardInterrupt, can come between the two, and then the row is missing.
"""

import contextlib
import math
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

from hwheel.recorder.log_writer import Row
from hwheel.recorder.recorder import Recorder
from hwheel.timers.system import SystemTimer
from hwheel_core import RLock, TermsTask, TimerTask, ceil_milliseconds, context_run

_Ts = TypeVarTuple("_Ts")
_Task = TypeVar("_Task", bound=TimerTask)


class RecordedTask(TermsTask):
    """The handle that ``call_later`` and ``call_at`` of a RecordingTimer return."""

    __slots__ = ("_is_noted", "_key", "_timer")
    _is_noted: bool
    _key: str | None
    _timer: "RecordingTimer"

    def run(self) -> None:
        """Run the callback, as ``TimerTask.run``."""
        if self.expired:  # False if the user runs the task early or after close(): this run does not end the task
            self._timer._note(self, None)
        super().run()

    def cancel(self) -> bool:
        """Cancel the task, as ``TimerTask.cancel``."""
        now_ms = self._timer._now_ms()
        cancelled = super().cancel()
        if cancelled:
            self._timer._note(self, now_ms)
        return cancelled

    def reschedule(self, delay: Any) -> bool:
        """Move the deadline, as ``TimerTask.reschedule``. The log has a cancelled timer and a new one."""
        timer = self._timer
        with timer._noting:  # each of two concurrent calls must see the deadline that it replaces
            row = timer._row_of(self, timer._now_ms()) if self.pending else None
            moved = super().reschedule(delay)
            if moved and row is not None:
                timer._recorder.record(row)
            return moved


class RecordingTimer(SystemTimer):
    """RecordingTimer(recorder, name="timer", *, key=None, **options)

    Run callbacks after a delay, like ``SystemTimer``, and record each timer when it ends.

    Timers of ``call_later`` and ``call_at`` are recorded; those of ``call_every``, ``call_many``, ``add``, and groups
    are not. Tasks that ``close()`` returns, or that are pending at interpreter exit, are recorded as cancelled at that
    time. Tasks that ``close(run_pending=True)`` runs are recorded as expired.

    Args:
        recorder: The recorder, which several timers can share. Close it after the timers.
        key: Called as ``key(callback, args)`` when a timer starts. Returns the key in the log: a str, or None. Default:
            the callback's qualified name.
        name: As in ``SystemTimer``.
        options: As in ``SystemTimer``. ``executor`` cannot be a process pool.

    Raises:
        TypeError: ``recorder`` is not a Recorder, or ``key`` is not callable.
        ValueError: ``executor`` is a process pool.

    Times in the log are ms since 1970, shifted from the timer's clock by whole ticks, so that a replay rounds as the
    timer did. Times of a callable clock are not shifted. The recorded timeout includes the part of ``slack`` that was
    used. A task that was too late for its ``max_lateness`` is recorded as expired. In a replay no timer is late, so a
    cancel that came in time only because the timer was late comes too late there.

    As fast as ``SystemTimer``, plus about 3 us per timer. Thread-safe.

    >>> from hwheel.recorder import Recorder, RecordingTimer
    >>> with Recorder("log") as recorder, RecordingTimer(recorder) as timer:
    ...     timer.call_later(30, print, "no answer").cancel()
    True
    """

    __module__ = "hwheel.recorder"

    def __init__(
        self,
        recorder: Recorder,
        name: str = "timer",
        *,
        key: Callable[[Callable[..., object], tuple[Any, ...]], str | None] | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(recorder, Recorder):
            raise TypeError(f"recorder must be a Recorder, got {type(recorder).__name__}")
        if key is not None and not callable(key):
            raise TypeError(f"key must be callable, got {type(key).__name__}")
        if isinstance(options.get("executor"), ProcessPoolExecutor):
            raise ValueError("executor must not be a ProcessPoolExecutor: other processes cannot record")
        self._recorder = recorder
        self._key_of = qualified_name if key is None else key
        self._noting = RLock()
        self._closed_ms: int | None = None
        self._last_ms = 0  # the last reading of the clock
        self._shift_ms = 0
        super().__init__(name, **options)
        if isinstance(options.get("clock", "monotonic"), str):
            self._shift_ms = round((time.time() - self.time()) * 1000) // self.tick_ms * self.tick_ms

    def call_later(
        self,
        delay: Any,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        slack: Any = 0,
        max_lateness: Any = None,
        context: Context | None = None,
    ) -> TimerTask:
        """Call ``callback(*args)`` after ``delay`` seconds, as ``SystemTimer.call_later``, and record the timer."""
        delay_ms = ceil_milliseconds(delay, "delay")
        return self._start_task(delay_ms, callback, args, (slack, max_lateness), context)

    def call_at(
        self,
        when: Any,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        slack: Any = 0,
        max_lateness: Any = None,
        context: Context | None = None,
    ) -> TimerTask:
        """Call ``callback(*args)`` at a time, as ``SystemTimer.call_at``, and record the timer."""
        ceil_milliseconds(when, "when")
        delay_ms = ceil_milliseconds(float(when) - self.time(), "when")
        return self._start_task(delay_ms, callback, args, (slack, max_lateness), context)

    def add(self, task: _Task) -> _Task:
        """Add a task, as ``SystemTimer.add``. It is not recorded."""
        if isinstance(task, RecordedTask):
            raise ValueError("the task was already added by call_later or call_at: create a new one")
        return super().add(task)

    def _end_threads(self, run_pending: bool, timeout: float | None) -> None:
        if self._closed_ms is None:
            self._closed_ms = self._now_ms()
        super()._end_threads(run_pending, timeout)

    def _before_return(self, tasks: list[Any]) -> None:
        for task in tasks:
            if isinstance(task, RecordedTask):
                self._note(task, self._closed_ms)

    def _report_error(self, source: Any, error: BaseException) -> None:
        if isinstance(source, RecordedTask) and source.expired:  # the executor refused the task or failed to run it
            self._note(source, None)
        super()._report_error(source, error)

    def _report_missed(self, task: TimerTask) -> None:
        if isinstance(task, RecordedTask):
            self._note(task, None)
        super()._report_missed(task)

    def _start_task(
        self,
        delay_ms: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        terms: tuple[Any, Any],
        context: Context | None,
    ) -> TimerTask:
        if callback is None:  # a TimerTask accepts it
            raise TypeError("callback must be callable, got NoneType")
        if context is None:
            task = RecordedTask(delay_ms, callback, *args)
        else:
            task = RecordedTask(delay_ms, context_run(context, callback), callback, *args)
        task._set_terms(*terms)
        task._timer, task._key, task._is_noted = self, self._key_of(callback, args), False
        return super().add(task)

    # --- notes ---------------------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        """Return the time on the timer's clock, or the last reading if the clock fails or the timer is closed."""
        with contextlib.suppress(Exception):
            self._last_ms = math.floor(self.time() * 1000)
        return self._last_ms

    def _note(self, task: RecordedTask, end_ms: int | None) -> None:
        """Record an ended task, once. end_ms: the time of its cancel on the timer's clock, or None."""
        with self._noting:
            if not task._is_noted:
                task._is_noted = True
                self._recorder.record(self._row_of(task, end_ms))

    def _row_of(self, task: RecordedTask, end_ms: int | None) -> Row:
        assert task.deadline_ms is not None
        waits_ms = task.delay_ms + task._put_off_ms
        start_ms = task.deadline_ms - waits_ms  # rounded up to a whole ms, as the deadline was
        if end_ms is not None:
            end_ms = max(start_ms, end_ms) + self._shift_ms
        return Row(task._key, start_ms + self._shift_ms, max(waits_ms, 0), end_ms)

    # --- the process ---------------------------------------------------------------------------------------------

    def _at_exit(self) -> None:
        if self.closed:
            return super()._at_exit()
        now_ms = self._now_ms()
        super()._at_exit()
        for task in self.pending():
            if isinstance(task, RecordedTask):
                self._note(task, now_ms)


def qualified_name(callback: Callable[..., object], args: tuple[Any, ...]) -> str | None:
    """Return the qualified name of a function or method, or of the class of any other callable."""
    name: str = getattr(callback, "__qualname__", type(callback).__qualname__)
    return name
