"""Dispatchers: where expired tasks run.

| `executor=` | Dispatcher | Thread that runs callbacks |
|---|---|---|
| `"inline"` | `InlineDispatcher` | the reaper |
| `None` | `ThreadDispatcher` | the timer's own executor thread |
| an executor | `ExecutorDispatcher` | chosen by the executor; one `submit()` for each task |

With ``reaper=False`` the caller of ``advance_clock()`` takes the reaper's place.
"""

import contextlib
import functools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor
from contextvars import Context
from typing import Any, Literal

from hwheel.timers.lifecycle import main_thread_has_ended
from hwheel.timers.threads import TimerThreads, seconds_left
from hwheel_core import BaseTimer, HandedOut, call_for_result

# drain() polls, because a task that it waits for can also be cancelled.
MAX_POLL_S = 0.5
MIN_POLL_S = 0.005  # while an expired task has not begun


def dispatcher_for(executor: Executor | Literal["inline"] | None, *, reaper: bool) -> "InlineDispatcher":
    """Return the dispatcher for SystemTimer's `executor` argument."""
    if executor is None:
        return ThreadDispatcher(reaper=reaper)
    if executor == "inline":
        return InlineDispatcher(reaper=reaper)
    if isinstance(executor, Executor) or callable(getattr(executor, "submit", None)):
        return ExecutorDispatcher(executor, reaper=reaper)
    raise TypeError(f'executor must be None, "inline" or a concurrent.futures.Executor, got {executor!r}')


class InlineDispatcher:
    """Runs expired tasks in the thread that finds them expired. The other dispatchers derive from this one."""

    has_executor_thread = False
    runs_elsewhere = False  # True: callbacks run in other processes

    def __init__(self, *, reaper: bool) -> None:
        self.threads = TimerThreads(reaper=reaper, executor=self.has_executor_thread)

    def dispatch(self, timer: BaseTimer, *, in_caller: bool = False) -> None:
        """Dispatch the expired tasks. in_caller: the current thread is the caller's, in which Ctrl-C may strike."""
        if in_caller:
            _run_callbacks(timer, timer._run_ready, True)
        else:
            timer._run_ready()

    def drain(self, timer: BaseTimer, deadline: float | None) -> None:
        """Run all expired tasks, or wait until the reaper has run them, at most until the deadline."""
        if self.threads.include_current() or not self.threads.any_alive():
            _run_callbacks(timer, timer._run_ready, True)
        else:
            timer._stop(True)
            self.threads.join(deadline)

    def is_in_callback(self, timer: BaseTimer) -> bool:
        """Return True if a callback of the timer makes this call."""
        return self.threads.include_current() or runs_here(timer)

    def may_run_more(self, timer: BaseTimer) -> bool:
        """Return True if a task that has left the wheel may still be running or waiting to run."""
        return True

    def wait_for_expiry(self, timer: BaseTimer, deadline: float | None) -> None:
        """Wait until the next task may expire, at most MAX_POLL_S. Without a reaper, advance the clock."""
        next_deadline = timer.next_deadline
        wait = MIN_POLL_S if next_deadline is None else min(max(next_deadline - timer.time(), MIN_POLL_S), MAX_POLL_S)
        if self.threads.has_reaper:
            time.sleep(_at_most(wait, deadline))
        else:
            timer._advance_clock(int(_at_most(wait, deadline) * 1e9))
            self.dispatch(timer, in_caller=True)

    def wait_for_running(self, timer: BaseTimer, deadline: float | None) -> None:
        """Wait until the callbacks that an executor is running have ended. The timer's threads must have ended."""

    def take_back(self, timer: BaseTimer) -> None:
        """At the end of close(), return the tasks that never reached the executor to the timer."""


class ThreadDispatcher(InlineDispatcher):
    """Leaves expired tasks to the timer's own executor thread, which waits for them in the core."""

    has_executor_thread = True

    def dispatch(self, timer: BaseTimer, *, in_caller: bool = False) -> None:
        """Do nothing."""


class ExecutorDispatcher(InlineDispatcher):
    """Submits each task to a ``concurrent.futures.Executor``, or to any object with a ``submit()``."""

    def __init__(self, executor: Any, *, reaper: bool) -> None:
        super().__init__(reaper=reaper)
        self._executor = executor
        processes = sys.modules.get("concurrent.futures.process")
        self.runs_elsewhere = processes is not None and isinstance(executor, processes.ProcessPoolExecutor)
        # The submitted tasks that have not finished, by number. None: the core is taking the task out of the timer. A
        # forked child also has the tasks of its parent.
        self._submitted: dict[int, HandedOut | None] = {}
        self._interrupted: deque[HandedOut] = deque()  # taken out, but Ctrl-C interrupted their submit()
        # Released whenever a task finishes. Not an Event: Ctrl-C in the waiting thread could leave the lock of an Event
        # taken, and then the executor's threads would hang.
        self._finish_signal = threading.Lock()
        self._finish_signal.acquire()

    def dispatch(self, timer: BaseTimer, *, in_caller: bool = False) -> None:
        def submit(handed: HandedOut) -> None:
            self._submit(timer, handed, in_caller)

        timer._dispatch(self._submitted, self._interrupted, submit, in_caller)

    def may_run_more(self, timer: BaseTimer) -> bool:
        generation = timer._generation()
        # A snapshot is enough: before a task leaves the timer, there is a None for it. Interrupted tasks are included.
        return any([handed is None or handed.generation == generation for handed in [*self._submitted.values()]])

    def drain(self, timer: BaseTimer, deadline: float | None) -> None:
        if not self.threads.include_current():
            timer._stop(True)
            self.threads.join(deadline)  # the reaper submits the tasks that it has taken out
        self.dispatch(timer, in_caller=True)
        if runs_here(timer):
            return  # this may be the executor's only thread
        self._wait_while(lambda: self._unfinished(timer), deadline)
        for handed in self._unfinished(timer):
            timer._take_back(handed)

    def wait_for_running(self, timer: BaseTimer, deadline: float | None) -> None:
        if not runs_here(timer):  # a callback must not wait for itself
            running = [handed for handed in self._unfinished(timer) if handed.is_running]
            self._wait_while(lambda: any([handed.is_running for handed in running]), deadline)

    def take_back(self, timer: BaseTimer) -> None:
        for handed in self._unfinished(timer):
            if handed.is_taken_back:
                timer._take_back(handed)  # once more, because the first attempt was interrupted
        for handed in self._interrupted.copy():
            timer._take_back(handed)
            with contextlib.suppress(ValueError):  # a reaper for which close() did not wait has submitted it
                self._interrupted.remove(handed)

    def _wait_while(self, goes_on: Callable[[], object], deadline: float | None) -> None:
        """Wait until goes_on() is false, at most until the deadline. Check again whenever a task has finished."""
        while goes_on() and seconds_left(deadline) != 0:
            left = seconds_left(deadline)
            self._finish_signal.acquire(True, -1 if left is None else left)

    def _unfinished(self, timer: BaseTimer) -> list[HandedOut]:
        """Return the tasks that this process has submitted and that have not finished."""
        generation = timer._generation()
        submitted = [*self._submitted.values()]
        return [handed for handed in submitted if handed is not None and handed.generation == generation]

    def _submit(self, timer: BaseTimer, handed: HandedOut, in_caller: bool) -> None:
        handed.finish_signal = self._finish_signal
        if self.runs_elsewhere and handed.is_too_late():
            handed.run()  # reports the task as missed
            return
        # Created before submit(): if it runs out of memory afterwards, the executor already has the task.
        finish = functools.partial(self._finish_elsewhere, timer, handed)
        try:
            future = self._executor.submit(run_handed_out, handed)
            self._follow(handed, future, finish)
        except BaseException as error:
            if in_caller and isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise  # the task is submitted again, unless it has begun
            # At the interpreter's exit, executors refuse tasks, and pending tasks are dropped.
            if not (isinstance(error, RuntimeError) and main_thread_has_ended()):
                timer._report_error(handed.source, error)
            if not handed.is_begun:
                handed.give_up()

    def _follow(self, handed: HandedOut, future: Any, finish: Callable[[Any], None]) -> None:
        """Make the future report its end, and let close() cancel it. Not every executor returns a future."""
        if callable(getattr(future, "add_done_callback", None)):
            if callable(getattr(future, "cancel", None)):
                handed.set_future(future)
            future.add_done_callback(finish)

    def _finish_elsewhere(self, timer: BaseTimer, handed: HandedOut, future: Any) -> None:
        """Finish a task that has run in another process, or never will. A task that ran here has finished itself."""
        if handed.is_begun or handed.is_taken_back:
            return
        error: BaseException | None
        try:
            if future.cancelled():
                error = CancelledError("the executor was shut down before it ran this")
                delivered = False
            else:
                error = future.exception()
                delivered = handed.answer(None if error is not None else future.result(), error)
        except BaseException as another:
            error, delivered = another, False
        if error is not None and not delivered:
            timer._report_error(handed.source, error)
        handed.give_up()


def run_handed_out(handed_out: Any) -> Any:
    """Run a submitted task in the executor.

    In this process the argument is the core's HandedOut, which reports an exception in the thread where it occurs. In
    another process it is a partial with the call alone, and the future brings the exception back.
    """
    if isinstance(handed_out, functools.partial):
        result = Context().run(handed_out)
        return result if handed_out.func is call_for_result else None
    _run_callbacks(handed_out.timer, handed_out.run)
    return None


class _Timers(threading.local):
    def __init__(self) -> None:
        self.timers: tuple[Any, ...] = ()


_running = _Timers()  # the timers whose callbacks run in the current thread; not set in the timers' own threads


def runs_here(timer: Any) -> bool:
    """Return True if the current thread, which is not the timer's own, is inside a callback of the timer."""
    return any(running is timer for running in _running.timers)


def _run_callbacks(timer: Any, run: Callable[..., object], *args: Any) -> None:
    """Call ``run(*args)``, which runs callbacks of the timer. Until it returns, runs_here() is true in this thread."""
    before = _running.timers
    try:
        _running.timers = (*before, timer)
        run(*args)
    finally:
        _running.timers = before  # no Ctrl-C can come here: CPython checks for signals at calls and in loops


def _at_most(seconds: float, deadline: float | None) -> float:
    left = seconds_left(deadline)
    return seconds if left is None else min(seconds, left)
