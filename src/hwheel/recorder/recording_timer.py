"""RecordingTimer: a SystemTimer that tells a Recorder what becomes of its timers.

It is a class of its own, so that nobody pays for recording who does not record. What is noted is what the core decided:
a cancel() that returned True, an expiry at the hand-out; deadline and delay are read from the task after that, when
nothing can change them any more.
"""

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
    """What call_later and call_at of a RecordingTimer return."""

    __slots__ = ("_is_noted", "_key", "_timer")
    _is_noted: bool
    _key: str | None
    _timer: "RecordingTimer"

    def run(self) -> None:
        # Only what the timer handed out has expired: who runs it by hand, before its time or after close(), ends
        # nothing.
        if self.expired:
            self._timer._note(self, None)
        super().run()

    def cancel(self) -> bool:
        """As TimerTask.cancel."""
        timer = self._timer
        if self._is_noted:
            timer._note(self, None)  # nothing, unless that was interrupted
            return super().cancel()
        now_ms = None
        if not self.cancelled:  # else by an earlier one that was interrupted, which has said when
            timer._cancels[self] = now_ms = timer._now_ms()
        try:
            return super().cancel()
        finally:
            timer._note_cancel(self, now_ms)

    def reschedule(self, delay: Any) -> bool:
        """As TimerTask.reschedule. In the log: one timer that was cancelled, and another that was started."""
        timer = self._timer
        with timer._noting:  # of two at once, each has to see the deadline that it replaces
            timer._note_move(self)  # an earlier one may have been interrupted
            if self.pending:
                timer._moves[self] = timer._row_of(self, timer._now_ms())
            try:
                moved = super().reschedule(delay)
            except BaseException:
                timer._note_move(self)
                raise
            if moved:
                timer._recorder._record_once(timer._moves, self)
            timer._moves.pop(self, None)
            return moved


class RecordingTimer(SystemTimer):
    """RecordingTimer(recorder, name="timer", *, key=None, **options)

    A SystemTimer whose timers are recorded, each when it is over: for what it was started, when, for how long, and when
    it was cancelled, if it was. What `close()` returns, and what is pending at interpreter exit, counts as cancelled
    then. What `close(run_pending=True)` runs counts as expired.

    Recorded are the timers of `call_later` and `call_at`. `call_every`, `call_many`, `add` and groups work, and are
    not.

    Arguments:
        recorder: where to; it may be that of several timers. Close it after them.
        key: called as key(callback, args) when a timer is started, returns the log's key: a str, or None. By itself the
            key is the callback's qualified name.
        name, options: as SystemTimer's. The executor cannot be one of processes.

    In the log times are ms since 1970, shifted from the timer's clock by whole ticks, so that a replay rounds as the
    timer did; those of a clock that is a callable are left as they are. A cancel that came in time because the timer
    was late, after its tick, is too late in a replay, where nothing is. What `slack` has put off waited for so much
    longer, and what was missed has expired.

    Runtime complexity: as SystemTimer, and about 3 us a timer.
    Thread-safety: as SystemTimer.

    >>> from hwheel.recorder import Recorder, RecordingTimer
    >>> with Recorder("log") as recorder, RecordingTimer(recorder) as timer:    # doctest: +SKIP
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
            raise TypeError(f"recorder must be a Recorder, not {type(recorder).__name__}")
        if key is not None and not callable(key):
            raise TypeError(f"key must be callable, not {type(key).__name__}")
        if isinstance(options.get("executor"), ProcessPoolExecutor):
            raise ValueError("executor must not be one of processes: what runs there cannot be recorded here")
        self._recorder = recorder
        self._key_of = qualified_name if key is None else key
        self._noting = RLock()
        self._start_notes()
        self._closed_ms: int | None = None
        self._last_ms = 0  # the last reading of the clock
        self._shift_ms = 0
        super().__init__(name, **options)
        if isinstance(options.get("clock", "monotonic"), str):
            self._shift_ms = round((time.time() - self.time()) * 1000) // self.tick_ms * self.tick_ms
        recorder._follow(self)

    def call_later(
        self,
        delay: Any,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        slack: Any = 0,
        max_lateness: Any = None,
        context: Context | None = None,
    ) -> TimerTask:
        """As SystemTimer.call_later, and recorded."""
        delay_ms = ceil_milliseconds(delay, "delay")
        return self._start_task(delay_ms, callback, args, slack, max_lateness, context)

    def call_at(
        self,
        when: Any,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        slack: Any = 0,
        max_lateness: Any = None,
        context: Context | None = None,
    ) -> TimerTask:
        """As SystemTimer.call_at, and recorded."""
        ceil_milliseconds(when, "when")
        delay_ms = ceil_milliseconds(float(when) - self.time(), "when")
        return self._start_task(delay_ms, callback, args, slack, max_lateness, context)

    def add(self, task: _Task) -> _Task:
        """As SystemTimer.add; not recorded."""
        if isinstance(task, RecordedTask):
            raise ValueError("a task of call_later or call_at was added there already; make a new one")
        return super().add(task)

    def _end_threads(self, run_pending: bool, timeout: float | None) -> None:
        if self._closed_ms is None:
            self._closed_ms = self._now_or_last_ms()
        self._note_the_interrupted()
        super()._end_threads(run_pending, timeout)

    def _give_back(self, tasks: list[Any]) -> None:
        for task in tasks:
            if isinstance(task, RecordedTask):
                self._note(task, self._closed_ms)

    def _report(self, source: Any, error: BaseException) -> None:
        if isinstance(source, RecordedTask) and source.expired:  # an executor did not take it, or did not run it
            self._note(source, None)
        super()._report(source, error)

    def _miss(self, task: TimerTask) -> None:
        if isinstance(task, RecordedTask):
            self._note(task, None)  # in the log it has expired
        super()._miss(task)

    def _start_task(
        self,
        delay_ms: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        slack: Any,
        max_lateness: Any,
        context: Context | None,
    ) -> TimerTask:
        if callback is None:  # which is no mistake in a TimerTask
            raise TypeError("callback must be callable, not NoneType")
        if context is None:
            task = RecordedTask(delay_ms, callback, *args)
        else:
            task = RecordedTask(delay_ms, context_run(context, callback), callback, *args)
        task._set_terms(slack, max_lateness)
        task._timer, task._key, task._is_noted = self, self._key_of(callback, args), False
        return super().add(task)

    # --- what is written down ------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        self._last_ms = math.floor(self.time() * 1000)
        return self._last_ms

    def _now_or_last_ms(self) -> int:
        """At the end, for which a clock that fails is no obstacle."""
        try:
            return self._now_ms()
        except Exception:
            return self._last_ms

    def _start_notes(self) -> None:
        # An interrupt may come at any line, also between what the core does and the note of it. So what is about to be
        # done is noted first, and it leaves these when it is recorded, or turns out not to have happened: by the second
        # try, when the timer is over otherwise, or by close().
        self._cancels: dict[RecordedTask, int] = {}  # the ms in which each is cancelled
        self._moves: dict[RecordedTask, Row] = {}  # what each was before the reschedule
        self._ends: dict[RecordedTask, Row] = {}  # what is over

    def _note(self, task: RecordedTask, end_ms: int | None) -> None:
        """A task that is over; end_ms on the timer's clock. Each is noted once, whatever its user does with it
        later."""
        with self._noting:
            if not task._is_noted:
                self._note_move(task)
                self._ends.setdefault(task, self._row_of(task, end_ms))
                task._is_noted = True
            self._recorder._record_once(self._ends, task)
        self._cancels.pop(task, None)

    def _note_cancel(self, task: RecordedTask, now_ms: int | None) -> None:
        end_ms = self._cancels.get(task, now_ms)
        if task.cancelled and end_ms is not None:
            self._note(task, end_ms)
        self._cancels.pop(task, None)

    def _note_move(self, task: RecordedTask) -> None:
        """A reschedule() of which nobody knows whether it came to anything."""
        row = self._moves.get(task)
        if row is not None and row[:3] != self._row_of(task, None)[:3]:
            self._recorder._record_once(self._moves, task)
        self._moves.pop(task, None)

    def _note_the_interrupted(self) -> None:
        for task in [*self._cancels]:
            self._note_cancel(task, None)
        for task in [*self._ends]:
            self._note(task, None)

    def _row_of(self, task: RecordedTask, end_ms: int | None) -> Row:
        assert task.deadline_ms is not None
        waits_ms = task.delay_ms + task._put_off_ms
        start_ms = task.deadline_ms - waits_ms  # the deadline was rounded up to a whole ms, and so is the start
        if end_ms is not None:
            end_ms = max(start_ms, end_ms) + self._shift_ms
        return Row(task._key, start_ms + self._shift_ms, max(waits_ms, 0), end_ms)

    # --- the process ---------------------------------------------------------------------------------------------

    def _at_exit(self) -> None:
        if self._exiting or self.closed:
            return super()._at_exit()
        now_ms = self._now_or_last_ms()
        self._note_the_interrupted()
        super()._at_exit()
        for task in self.pending():
            if isinstance(task, RecordedTask):
                self._note(task, now_ms)


def qualified_name(callback: Callable[..., object], args: tuple[Any, ...]) -> str | None:
    """What a function or method is called; the class of anything else."""
    name: str = getattr(callback, "__qualname__", type(callback).__qualname__)
    return name
