"""Timer: threading.Timer without a thread for each."""

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextvars import Context
from typing import Any

from hwheel.threading.engine import TimerEngine
from hwheel.threading.pool import IDLE_NAME
from hwheel.timers.lifecycle import end_forked_thread
from hwheel.timers.one_shot import OneShot
from hwheel.timers.start_thread import start_thread
from hwheel.timers.uncaught import report_uncaught
from hwheel_core import RLock, TimerTask

__all__ = ["Timer"]


class _NoTask:
    """For a timer that has a thread of its own: it has been started, and no task can be cancelled."""

    cancelled = False

    def cancel(self) -> bool:
        return False


class Timer(threading.Timer):
    """Timer(interval, function, args=None, kwargs=None)

    Calls a function after a number of seconds, as threading.Timer does, but waits in a wheel that all timers of the
    process share: starting and cancelling one is O(1) and starts no thread. When it falls due, the function runs in a
    thread of an elastic pool, so that however long it takes, it delays no other timer. It is never called early.

    Arguments:
        interval: seconds, an int or a float; read by start(). Zero or less: at once, but not in the caller's thread.
        function, args, kwargs: what is called, a list and a dict. They are attributes, and read when the time has come.

    Everything else is as with threading.Timer, of which this is a subclass: start() works once, a cancel() that comes
    too late does nothing, `daemon` is inherited from the thread that makes the timer, a pending timer that is no daemon
    keeps the interpreter from exiting, an exception goes to threading.excepthook, and a forked child does not have the
    timers that its parent had pending. A subclass with a run() of its own gets a thread of its own for that, at
    start(). docs/drop_in.md says what differs.

    Raises:
        TypeError, ValueError, OverflowError: in start(), if interval is no number, NaN or infinite, or too large.

    Runtime complexity: start() and cancel() are O(1).
    Thread-safety: every method may be called from any thread, and inside the function.

    >>> from hwheel import Timer
    >>> timer = Timer(0.01, print, ["ten milliseconds"])
    >>> timer.start()
    >>> timer.join()
    ten milliseconds
    >>> timer.cancel()
    """

    __module__ = "hwheel"

    # Who changes what. start() sets _task, which is what "started" means, and _generation. The reaper, which is one
    # thread, sees to it that a timer falls due once. The function's thread sets _runner, then _over. cancel() and the
    # end of the function set _is_finished. Where one thread sets a flag and then looks for an Event, another makes the
    # Event and then looks at the flag, so one of them sets it.
    _task: TimerTask | _NoTask | None
    _generation = 0  # of the engine's, at start()
    _runner: threading.Thread | None = None  # where the function runs, or ran
    _has_fallen_due = False
    _over = False  # the function has run, or will not
    _over_event: OneShot | None  # for join(); made when needed
    _is_finished: bool  # what `finished` says, or would if it had been made
    _finished: threading.Event | None
    _name: str | None = None  # made when needed
    _has_own_run = False
    _stderr = None  # what the standard excepthook asks a thread for

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._has_own_run = cls.run is not Timer.run

    def __init__(
        self,
        interval: float,
        function: Callable[..., object],
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        # Not super().__init__(): it makes a thread of this. What it would set is set here, or made when asked for.
        self.interval = interval
        self.function = function
        self.args = [] if args is None else args
        self.kwargs = {} if kwargs is None else kwargs
        self._daemonic = _here.daemon
        # What start() and cancel() look at: an instance's attribute is found several times as fast as a class's.
        self._task = self._over_event = self._finished = None
        self._is_finished = False

    def start(self) -> None:
        """Starts the timer: its function is called `interval` seconds from now.

        Raises:
            RuntimeError: it has been started before, or (TimerClosed) the interpreter is at its end.
            TypeError, ValueError, OverflowError: interval is no number of seconds; the timer is as it was.

        Runtime complexity: O(1).
        """
        if self._task is not None:
            raise RuntimeError("threads can only be started once")
        engine = _engine or _make_engine()
        self._generation = engine.generation
        if self._has_own_run:
            self._start_thread()
            return
        try:
            self._task = _NO_TASK  # the function may run before the next line has come to its end
            self._task = engine.timer.call_later(self.interval, _fall_due, self)
        except (TypeError, ValueError, OverflowError):
            self._task = None
            raise
        except BaseException:
            self._take_back(engine)
            raise
        if self._is_finished:
            Timer.cancel(self)  # a cancel() came before there was a task; a subclass's own has been called then
        elif engine.exiting and not self._daemonic:
            self._keep_interpreter(engine)

    def cancel(self) -> None:
        """Keeps the function from being called, if it is not too late. A timer may be cancelled before its start.

        Runtime complexity: O(1).
        """
        self._is_finished = True
        task = self._task
        if task is not None:
            task.cancel()
            # Also if it was cancelled before: that cancel() may have been interrupted here.
            if task.cancelled and self._over_event is not None:
                self._over_event.set()
        if self._finished is not None:
            self._finished.set()

    def run(self) -> None:
        """Waits and calls the function, here and now: for subclasses whose own run() calls this one."""
        self.finished.wait(self.interval)
        if not self.finished.is_set():
            self.function(*self.args, **self.kwargs)
        self.finished.set()

    def join(self, timeout: float | None = None) -> None:
        """Waits until the timer is over: its function has returned or raised, or it was cancelled in time.

        Arguments:
            timeout: wait at most so many seconds; ask is_alive() afterwards.
        Raises:
            RuntimeError: it has not been started, or this is called in its own function.
        """
        if self._task is None:
            raise RuntimeError("cannot join thread before it is started")
        if self._runner is threading.current_thread() and not self._over:
            raise RuntimeError("cannot join current thread")
        self._wait_until_over(timeout)

    def is_alive(self) -> bool:
        """Whether the timer has been started and is not over: its function may yet be called, or is running."""
        task = self._task  # read once, as _runner below: a start() that fails in another thread takes it back
        if task is None or task.cancelled or self._over:
            return False
        if _engine is not None and self._generation == _engine.generation:
            return True
        # A fork happened since. Only the thread that forked came along.
        runner = self._runner
        return runner is not None and runner.is_alive()

    @property
    def finished(self) -> threading.Event:
        """The threading.Event that is set by cancel(), or when the function has returned. To set it is to cancel."""
        with _making:
            event = self._finished = self._finished or _Finished(self)
        if self._is_finished:
            event.set()
        return event

    @finished.setter
    def finished(self, event: threading.Event) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._finished = event
        self._is_finished = event.is_set()

    @property
    def name(self) -> str:
        """A name for people to read; the thread in which the function runs has it for so long."""
        with _making:
            name = self._name = self._name or f"Timer-{next(_numbers)}"
        return name

    @name.setter
    def name(self, name: str) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._name = str(name)
        runner = self._runner
        if runner is not None and not self._over:
            runner.name = self._name

    @property
    def daemon(self) -> bool:
        """Whether the interpreter may exit while the timer is pending or its function runs. Fixed by start()."""
        return self._daemonic

    @daemon.setter
    def daemon(self, daemon: bool) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        if self._task is not None:
            raise RuntimeError("cannot set daemon status of active thread")
        self._daemonic = daemon

    @property
    def ident(self) -> int | None:
        """threading.get_ident() of the thread in which the function runs or ran. None before."""
        runner = self._runner
        return None if runner is None else runner.ident

    @property
    def native_id(self) -> int | None:
        """The system's number of the thread in which the function runs or ran. None before."""
        runner = self._runner
        return None if runner is None else runner.native_id

    def __repr__(self) -> str:
        state = "initial" if self._task is None else "started" if self.is_alive() else "stopped"
        daemon = " daemon" if self.daemon else ""
        ident = "" if self.ident is None else f" {self.ident}"
        return f"<{type(self).__name__}({self.name}, {state}{daemon}{ident})>"

    # --- running -----------------------------------------------------------------------------------------------------

    def _wait_until_over(self, timeout: float | None = None) -> None:
        """What join() does, also where a subclass has a join() or an is_alive() of its own."""
        if Timer.is_alive(self):
            with _making:
                event = self._over_event = self._over_event or OneShot()
            event.wait(timeout, begin=lambda: None if Timer.is_alive(self) else event.set())

    def _start_thread(self) -> None:
        """For a run() of a subclass. By custom it does its own waiting for `finished`, so it starts now."""
        self._runner = threading.Thread(target=self._run_alone, name=self.name, daemon=self.daemon)
        try:
            self._task = _NO_TASK
            start_thread(self._runner)
        except BaseException:
            self._runner = self._task = None
            raise

    def _run_alone(self) -> None:
        generation = self._generation
        try:
            self._run_here(self.run)
        finally:
            if _engine is not None and _engine.generation != generation:
                end_forked_thread()  # run() has forked, and this is the child: its daemons are no reason to go on

    def _take_back(self, engine: TimerEngine) -> None:
        """start() was interrupted, or there was no room: it has not been started, unless it runs already."""
        for task in engine.timer.pending():
            if (args := task.args) and args[0] is self:
                task.cancel()
        if not self._has_fallen_due:
            self._task = None

    def _keep_interpreter(self, engine: TimerEngine) -> None:
        try:
            engine.keep_interpreter()
        except BaseException:  # no thread can be started any more, as the standard timer would find, too
            if self._task is not None and self._task.cancel():
                self._task = None
            raise

    def _run_in_pool(self) -> None:
        thread = self._runner = threading.current_thread()
        try:
            # As in a thread of its own, what other functions left in context variables is not to be seen.
            Context().run(self._run_here, self._call)
        finally:
            thread.name = IDLE_NAME

    def _call(self) -> None:
        threading.current_thread().name = self.name
        if not (self._is_finished or self._finished is not None and self._finished.is_set()):
            self.function(*self.args, **self.kwargs)
            self._is_finished = True
            if self._finished is not None:
                self._finished.set()

    def _run_here(self, function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            report_uncaught(error, self)
        finally:
            self._over = True
            if self._over_event is not None:
                self._over_event.set()


class _Finished(threading.Event):
    """A timer's `finished`, which a program may set itself instead of calling cancel()."""

    def __init__(self, timer: Timer) -> None:
        super().__init__()
        self._timer: Timer | None = timer

    def set(self) -> None:
        super().set()
        timer, self._timer = self._timer, None
        if timer is not None:
            Timer.cancel(timer)  # not a subclass's own, which the standard timer would not call either


class _Here(threading.local):
    """What the current thread hands on to its timers. It is asked once: it cannot change while the thread lives."""

    def __init__(self) -> None:
        self.daemon = threading.current_thread().daemon


_NO_TASK = _NoTask()
_here = _Here()
_numbers = itertools.count(1)
_engine: TimerEngine | None = None
_making = RLock()  # held to make one of what is made when needed, and for nothing else


def _make_engine() -> TimerEngine:
    global _engine
    with _making:
        if _engine is None:
            _engine = TimerEngine()
        return _engine


def _fall_due(timer: Timer) -> None:
    """Called by the reaper when the time of a timer has come: has its function run in a pool."""
    if _engine is not None and not timer._has_fallen_due:
        timer._has_fallen_due = True
        _engine.submit(timer._run_in_pool, timer._daemonic)


def _after_fork_in_child() -> None:
    """No thread came along but this one, which may be another kind of thread now."""
    global _here
    _here = _Here()
    if _engine is not None:
        _engine.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
