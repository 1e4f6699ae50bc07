"""Timer: threading.Timer without a thread per timer."""

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from hwheel.threading.engine import TimerEngine
from hwheel.timers.lifecycle import end_forked_thread
from hwheel_core import Latch, RLock, TimerTask, run_timer_alone

__all__ = ["Timer"]


class _NoTask:
    """The task of a timer that has a thread of its own: there is nothing to cancel."""

    cancelled = False

    def cancel(self) -> bool:
        return False


class Timer(threading.Timer):
    """Call a function after a number of seconds, like threading.Timer, but without a thread for each timer.

    All timers of the process share one wheel. When a timer expires, its function runs in a thread of an elastic pool,
    so a slow function delays no other timer. No function is called early.

    Everything else is as with threading.Timer, of which this is a subclass. ``start()`` works once. A ``cancel()`` that
    comes too late does nothing. ``daemon`` is inherited from the thread that creates the timer, and a pending
    non-daemon timer keeps the interpreter from exiting. An exception goes to threading.excepthook. A forked child does
    not have its parent's pending timers. A subclass that overrides ``run()`` gets a thread of its own at ``start()``.
    docs/drop_in.md lists the differences.

    Args:
        interval: Seconds, an int or a float, read by ``start()``. Zero or less: at once, but not in the caller's
            thread.
        function: The function to call. Like args and kwargs, it is an attribute that is read when the timer expires.
        args: Its positional arguments. Default: none.
        kwargs: Its keyword arguments. Default: none.

    ``start()`` and ``cancel()`` are O(1). Thread-safe: any thread may call every method, also inside the function.

    Example:
        >>> from hwheel import Timer
        >>> timer = Timer(0.01, print, ["ten milliseconds"])
        >>> timer.start()
        >>> timer.join()
        ten milliseconds
        >>> timer.cancel()
    """

    __module__ = "hwheel"

    # start() sets _task, which means "started", and _generation. The reaper, a single thread, sets _has_expired. The
    # function's thread sets _runner and _over. cancel() and the function's return set _is_finished. A thread first sets
    # a flag and then checks for an event to set; a thread first creates an event and then checks the flag. So one of
    # them sets the event.
    _task: TimerTask | _NoTask | None
    _generation = 0  # of the engine, at start()
    _runner: threading.Thread | None = None  # where the function runs, or ran
    _has_expired = False
    _over = False  # the function has ended, or will not run
    _over_event: Latch | None  # for join(); created when needed
    _is_finished: bool  # the state of `finished`
    _finished: threading.Event | None  # created when needed
    _name: str | None = None  # created when needed
    _has_own_run = False
    _stderr = None  # read by the standard excepthook

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
        # Not super().__init__(), which would set this up as a thread.
        self.interval = interval
        self.function = function
        self.args = [] if args is None else args
        self.kwargs = {} if kwargs is None else kwargs
        self._daemonic = _here.daemon
        # start() and cancel() read these, and attributes of an instance are several times as fast as those of a class.
        self._task = self._over_event = self._finished = None
        self._is_finished = False

    def start(self) -> None:
        """Start the timer: its function is called `interval` seconds from now.

        Raises:
            RuntimeError: The timer has been started before, or (TimerClosed) the interpreter is exiting.
            TypeError, ValueError, OverflowError: `interval` is not a valid number of seconds. The timer is unchanged.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import Timer
            >>> timer = Timer(0.01, print, ["hello"])
            >>> timer.start()
            >>> timer.join()
            hello
        """
        if self._task is not None:
            raise RuntimeError("threads can only be started once")
        engine = _engine or _create_engine()
        self._generation = engine.generation
        if self._has_own_run:
            self._start_thread(engine)
            return
        try:
            self._task = _NO_TASK  # the function may run before the next line ends
            self._task = engine.timer.call_later(self.interval, engine.expire, self)
        except (TypeError, ValueError, OverflowError):
            self._task = None
            raise
        except BaseException:
            self._take_back(engine)
            raise
        if self._is_finished:
            Timer.cancel(self)  # cancel() was called before there was a task
        elif engine.exiting and not self._daemonic:
            self._keep_interpreter(engine)

    def cancel(self) -> None:
        """Prevent the call of the function, unless it has begun. A timer can be cancelled before its start.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import Timer
            >>> timer = Timer(30, print, ["no answer"])
            >>> timer.start()
            >>> timer.cancel()
            >>> timer.is_alive()
            False
        """
        self._is_finished = True
        task = self._task
        if task is not None:
            task.cancel()
            # Also if the task was cancelled before, because Ctrl-C may have interrupted that cancel() here.
            if task.cancelled and self._over_event is not None:
                self._over_event.set()
        if self._finished is not None:
            self._finished.set()

    def run(self) -> None:
        """Wait and call the function in this thread. For subclasses whose run() calls this one.

        Example:
            >>> from hwheel import Timer
            >>> class LoggedTimer(Timer):
            ...     def run(self):
            ...         super().run()
            ...         print("over")
            >>> timer = LoggedTimer(0.01, print, ["hello"])
            >>> timer.start()
            >>> timer.join()
            hello
            over
        """
        self.finished.wait(self.interval)
        if not self.finished.is_set():
            self.function(*self.args, **self.kwargs)
        self.finished.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the function has returned or raised, or until the timer is cancelled.

        Args:
            timeout: The maximum number of seconds. After a timeout, ``is_alive()`` is true. Default: no limit.

        Raises:
            RuntimeError: The timer has not been started, or its own function makes this call.

        Example:
            >>> from hwheel import Timer
            >>> timer = Timer(30, print, ["no answer"])
            >>> timer.start()
            >>> timer.join(timeout=0.01)
            >>> timer.is_alive()
            True
            >>> timer.cancel()
        """
        if self._task is None:
            raise RuntimeError("cannot join thread before it is started")
        if self._runner is threading.current_thread() and not self._over:
            raise RuntimeError("cannot join current thread")
        self._wait_until_over(timeout)

    def is_alive(self) -> bool:
        """Return True if the timer is pending or its function is running.

        Example:
            >>> from hwheel import Timer
            >>> timer = Timer(30, print, ["no answer"])
            >>> timer.is_alive(), timer.start(), timer.is_alive()
            (False, None, True)
            >>> timer.cancel()
        """
        task = self._task  # read once, like _runner below: a start() that fails in another thread resets it
        if task is None or task.cancelled or self._over:
            return False
        if _engine is not None and self._generation == _engine.generation:
            return True
        # In the child of a fork, only the thread that forked is alive.
        runner = self._runner
        return runner is not None and runner.is_alive()

    @property
    def finished(self) -> threading.Event:
        """A threading.Event, set by ``cancel()`` or when the function has returned. Setting it cancels the timer."""
        with _creating:
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
        """The timer's name. The thread that runs the function has this name during the call."""
        with _creating:
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
        """True if the interpreter may exit while the timer is pending or runs. Cannot change after ``start()``."""
        return self._daemonic

    @daemon.setter
    def daemon(self, daemon: bool) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        if self._task is not None:
            raise RuntimeError("cannot set daemon status of active thread")
        self._daemonic = daemon

    @property
    def ident(self) -> int | None:
        """The identifier of the thread that runs or ran the function. None before."""
        runner = self._runner
        return None if runner is None else runner.ident

    @property
    def native_id(self) -> int | None:
        """The system's identifier of the thread that runs or ran the function. None before."""
        runner = self._runner
        return None if runner is None else runner.native_id

    def __repr__(self) -> str:
        state = "initial" if self._task is None else "started" if self.is_alive() else "stopped"
        daemon = " daemon" if self.daemon else ""
        ident = "" if self.ident is None else f" {self.ident}"
        return f"<{type(self).__name__}({self.name}, {state}{daemon}{ident})>"

    # --- running -----------------------------------------------------------------------------------------------------

    def _wait_until_over(self, timeout: float | None = None) -> bool:
        """Do what join() does, also if a subclass overrides join() or is_alive(). Return False after the timeout."""
        if not Timer.is_alive(self):
            return True
        with _creating:
            event = self._over_event = self._over_event or Latch()
        if not Timer.is_alive(self):
            event.set()
        return event.wait(timeout)

    def _start_thread(self, engine: TimerEngine) -> None:
        """Start a thread for a subclass's run(), which waits for `finished` itself."""
        run = partial(run_timer_alone, self, engine, end_forked_thread)
        self._runner = threading.Thread(target=run, name=self.name, daemon=self.daemon)
        try:
            self._task = _NO_TASK
            self._runner.start()
        except BaseException:
            self._runner = self._task = None
            raise

    def _take_back(self, engine: TimerEngine) -> None:
        """Undo a start() that failed or was interrupted, unless the timer has expired already."""
        for task in engine.timer.pending():
            if (args := task.args) and args[0] is self:
                task.cancel()
        if not self._has_expired:
            self._task = None

    def _keep_interpreter(self, engine: TimerEngine) -> None:
        try:
            engine.keep_interpreter()
        except BaseException:  # no thread can be started any more; the standard timer fails in the same way
            if self._task is not None and self._task.cancel():
                self._task = None
            raise


class _Finished(threading.Event):
    """The event `finished` of a timer. Setting it cancels the timer."""

    def __init__(self, timer: Timer) -> None:
        super().__init__()
        self._timer: Timer | None = timer

    def set(self) -> None:
        super().set()
        timer, self._timer = self._timer, None
        if timer is not None:
            Timer.cancel(timer)  # not a subclass's cancel(), which the standard timer does not call either


class _Here(threading.local):
    """The current thread's daemon flag, which its timers inherit. It cannot change while the thread is alive."""

    def __init__(self) -> None:
        self.daemon = threading.current_thread().daemon


_NO_TASK = _NoTask()
_here = _Here()
_numbers = itertools.count(1)
_engine: TimerEngine | None = None
_creating = RLock()  # held only to create objects that are created when needed


def _create_engine() -> TimerEngine:
    global _engine
    with _creating:
        if _engine is None:
            _engine = TimerEngine()
        return _engine


def _after_fork_in_child() -> None:
    """Replace the engine's threads. Forget the daemon flags: the thread that forked is now the main thread."""
    global _here
    _here = _Here()
    if _engine is not None:
        _engine.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
