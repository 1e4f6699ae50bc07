"""The threads of a SystemTimer, and the ways from what is due to who runs it.

A HandOver starts the threads. The reaper waits in compiled code without the GIL. With a thread of the timer's own as
executor the reaper never needs the GIL: it moves what is due to a list, on which that thread waits. For "inline" and
for a foreign executor the reaper comes back to Python with each batch that fell due and hands it out here.

Nothing here has a lock. A thread takes its role when it begins to run, and one that finds it taken ends: so starting
threads may be interrupted by Ctrl-C, and may come from a signal handler or a finalizer in the middle of itself.
"""

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor
from types import FrameType
from typing import Any, Literal

from hwheel.timers.handed_out import run_handed_out, runs_here
from hwheel.timers.lifecycle import Fork, end_forked_thread, fork_at_work, main_thread_has_ended
from hwheel.timers.start_thread import start_thread
from hwheel_core import BaseTimer, HandedOut

REAPER, EXECUTOR = range(2)  # Role, in the core
NAMES = ("reaper", "executor")
LOOK_S = 0.2  # how often close() looks whether a thread that it waits for is at work,
DRAIN_LOOK_S = 0.5  # how often drain() looks whether what it waits for was cancelled,
BUSY_LOOK_S = 0.005  # and whether what is due has been begun
PATIENCE_S = 1.0  # and how long it waits for one that is not


def hand_over_to(executor: Executor | Literal["inline"] | None, *, reaper: bool) -> "HandOver":
    """The HandOver for SystemTimer's `executor` argument."""
    if executor is None:
        return OwnWorker(reaper=reaper)
    if executor == "inline":
        return HandOver(reaper=reaper)
    if isinstance(executor, Executor) or callable(getattr(executor, "submit", None)):
        return Foreign(executor, reaper=reaper)
    raise TypeError(f'executor must be None, "inline" or a concurrent.futures.Executor, not {executor!r}')


class HandOver:
    """executor="inline": what falls due runs in the reaper."""

    has_worker = False
    elsewhere = False  # whether what falls due runs in another process

    def __init__(self, *, reaper: bool) -> None:
        self.has_reaper = reaper
        self._threads: list[threading.Thread] = []
        self._at_work: list[threading.Thread] = []
        self._fork: Fork | None = None  # that the threads were started in

    def start(self, timer: BaseTimer) -> None:
        """Starts the threads. One that cannot be started is an error at the add, which adds nothing then."""
        timer._prepare(self.has_worker)
        if self.has_worker:
            timer._start_role(EXECUTOR, lambda: self._start_thread(EXECUTOR, timer, _work))
        if self.has_reaper:
            timer._start_role(REAPER, lambda: self._start_thread(REAPER, timer, _reap))
        timer._set_started()

    def _start_thread(self, role: int, timer: BaseTimer, loop: Callable[..., None]) -> None:
        self._fork = fork_at_work()
        thread = threading.Thread(
            target=loop, args=(timer, self, self._fork), name=f"{NAMES[role]}-{timer.name}", daemon=True
        )
        # Noted before it is started, because a start that is interrupted may have started it all the same.
        self._threads.append(thread)
        start_thread(thread)

    def hand_out(self, timer: BaseTimer, *, in_caller: bool = False) -> None:
        """Hands out what is ready; called in the thread that found it so. in_caller: it is one of the user's."""
        timer._run_ready(in_caller)

    def drain(self, timer: BaseTimer, give_up: float | None) -> None:
        """Has everything that is ready run, until give_up."""
        if self._is_own_thread() or not self._is_alive():
            timer._run_ready(True)
        else:
            timer._stop(True)
            self.join(give_up)

    def is_here(self, timer: BaseTimer) -> bool:
        """Whether this is inside a callback of the timer."""
        return self._is_own_thread() or _is_called_by_callback(timer)

    def has_taken(self, timer: BaseTimer) -> bool:
        """Whether what was taken out may still be run."""
        return True

    def wait_for_due(self, timer: BaseTimer, give_up: float | None) -> None:
        """Lets some time pass, until about when something is due. Where there is no reaper, this thread is it."""
        if not self.has_reaper:
            timer._advance_clock(int(_at_most(DRAIN_LOOK_S, give_up) * 1e9))
            self.hand_out(timer, in_caller=True)
            return
        due = timer.next_deadline
        wait = BUSY_LOOK_S if due is None else min(max(due - timer.time(), BUSY_LOOK_S), DRAIN_LOOK_S)
        time.sleep(_at_most(wait, give_up))

    def take_back(self, timer: BaseTimer) -> None:
        """At the end of close(): what was taken out of the timer and never reached its executor comes back."""

    def after_fork_in_child(self) -> None:
        """Whoever waits here for another thread, and has forked in a signal handler, waits no more."""

    def join(self, give_up: float | None) -> None:
        """Waits for the threads to end, but not for the one that this is called in."""
        if self._fork is not None:
            self._fork.make_way()
        for thread in [*self._threads]:
            if thread is not threading.current_thread():
                self._join_one(thread, give_up)

    def _join_one(self, thread: threading.Thread, give_up: float | None) -> None:
        """A thread's very beginning and end are not waited for without end: for these it needs a lock of the module
        threading, which this thread has if the close() comes from a finalizer in the middle of Thread.start()."""
        patience = time.monotonic() + PATIENCE_S
        while thread.is_alive() and time_left(give_up) != 0:
            if thread in self._at_work:
                patience = time.monotonic() + PATIENCE_S
            elif time.monotonic() > patience:
                return
            thread.join(_at_most(LOOK_S, give_up))

    def leave(self) -> None:
        """At interpreter exit: waits for the threads that run no Python code and end at once. With a thread of the
        timer's own as executor the reaper is such a one."""
        if self.has_worker:
            for thread in self._threads:
                if thread.is_alive() and thread.name.startswith(NAMES[REAPER]):
                    thread.join(1.0)

    def _is_alive(self) -> bool:
        for thread in self._threads:  # no generator: one swallows an interruption that comes when it begins
            if thread.is_alive():
                return True
        return False

    def _is_own_thread(self) -> bool:
        return threading.current_thread() in self._threads


class OwnWorker(HandOver):
    """executor=None: one thread of the timer's own, which waits for what is ready by itself."""

    has_worker = True

    def hand_out(self, timer: BaseTimer, *, in_caller: bool = False) -> None:
        pass


class Foreign(HandOver):
    """A concurrent.futures.Executor, or whatever has a submit(), to which each task is submitted by itself."""

    def __init__(self, executor: Any, *, reaper: bool) -> None:
        super().__init__(reaper=reaper)
        self._executor = executor
        processes = sys.modules.get("concurrent.futures.process")
        self.elsewhere = processes is not None and isinstance(executor, processes.ProcessPoolExecutor)
        # What is not over; in a forked child the parent's, too. None keeps a place for what is about to be taken out.
        self._handed_out: dict[int, HandedOut | None] = {}
        self._again: deque[HandedOut] = deque()  # taken out, but submit() was interrupted
        # Released whenever something that was handed out is over. No Event: a Ctrl-C could leave that locked by its
        # waiter, and then the executor's threads would hang.
        self._finish_signal = threading.Lock()
        self._finish_signal.acquire()

    def hand_out(self, timer: BaseTimer, *, in_caller: bool = False) -> None:
        timer._hand_out(self._handed_out, self._again, lambda handed: self._submit(timer, handed, in_caller), in_caller)

    def is_here(self, timer: BaseTimer) -> bool:
        return self._is_own_thread() or runs_here(timer)

    def has_taken(self, timer: BaseTimer) -> bool:
        generation = timer._generation()
        # One look, because what is taken out comes in the place of a None. What is to be submitted again is among it.
        return any([one is None or one.generation == generation for one in [*self._handed_out.values()]])

    def drain(self, timer: BaseTimer, give_up: float | None) -> None:
        if not self._is_own_thread():
            timer._stop(True)
            self.join(give_up)  # the reaper hands out what it has begun with
        self.hand_out(timer, in_caller=True)
        if runs_here(timer):
            return  # the executor may have no thread but this one
        while self._outstanding(timer) and time_left(give_up) != 0:
            left = time_left(give_up)
            self._finish_signal.acquire(True, -1 if left is None else left)
        for handed in self._outstanding(timer):
            timer._take_back(handed)

    def after_fork_in_child(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._finish_signal.release()  # what was handed out is the parent's: nobody else releases it

    def take_back(self, timer: BaseTimer) -> None:
        for handed in self._outstanding(timer):
            if handed.is_taken_back:
                timer._take_back(handed)  # again: it was interrupted
        for handed in self._again.copy():
            timer._take_back(handed)
            with contextlib.suppress(ValueError):  # another thread, for which close() did not wait, was faster
                self._again.remove(handed)

    def _outstanding(self, timer: BaseTimer) -> list[HandedOut]:
        """What was handed out by this process, and is not over."""
        generation = timer._generation()
        return [one for one in [*self._handed_out.values()] if one is not None and one.generation == generation]

    def _submit(self, timer: BaseTimer, handed: HandedOut, in_caller: bool) -> None:
        handed.finish_signal = self._finish_signal
        if self.elsewhere and handed.is_too_late():
            handed.run()  # which tells of it, and runs nothing
            return
        try:
            future = self._executor.submit(run_handed_out, handed)
        except BaseException as error:
            if in_caller and isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise  # if the run has not begun, it is submitted again
            if not (isinstance(error, RuntimeError) and main_thread_has_ended()):
                timer._report(
                    handed.source, error
                )  # but at exit what is pending is dropped, and executors are shut down
            if not handed.is_begun:
                handed.give_up()
            return
        early = [not self.elsewhere]
        try:
            if callable(getattr(future, "add_done_callback", None)):
                if callable(getattr(future, "cancel", None)):
                    handed.set_future(future)
                future.add_done_callback(lambda done: self._look_at_future(timer, handed, done, early=early == [True]))
        except BaseException as error:
            if in_caller and isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            timer._report(handed.source, error)  # no future, then; it is over when it has run
        early.clear()

    def _look_at_future(self, timer: BaseTimer, handed: HandedOut, future: Any, *, early: bool) -> None:
        """The future is done. If that was not by a run in this process, it says what became of it. early: it was done
        when submit() returned, which means nothing where the run is yet to come."""
        if handed.is_begun or handed.is_taken_back:
            return
        try:
            if future.cancelled():
                error: BaseException | None = CancelledError("the executor was shut down before it ran this")
                told = False
            else:
                error = future.exception()
                told = not early and handed.answer(None if error is not None else future.result(), error)
        except BaseException as another:
            error, told = another, False
        if error is not None and not told:
            timer._report(handed.source, error)
        if error is not None or not early:
            handed.give_up()


def _is_called_by_callback(timer: BaseTimer) -> bool:
    """Whether this thread is the user's, and further up in it callbacks of the timer are run: by advance_clock(), say.

    Nobody keeps account of that, because a Ctrl-C could come in between; the stack always says what is so."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code in (HandOver.hand_out.__code__, HandOver.drain.__code__) and frame.f_locals["timer"] is timer:
            return True
        frame = frame.f_back
    return False


def _at_most(seconds: float, give_up: float | None) -> float:
    left = time_left(give_up)
    return seconds if left is None else min(seconds, left)


def end_of(timeout: float | None) -> float | None:
    """When a wait of so many seconds is over; None: it has no end."""
    return None if timeout is None or timeout > threading.TIMEOUT_MAX else time.monotonic() + timeout


def time_left(give_up: float | None) -> float | None:
    """Seconds until then; None: there is no such time."""
    return None if give_up is None else max(0.0, give_up - time.monotonic())


def _reap(timer: BaseTimer, hand_over: HandOver, fork: Fork | None) -> None:
    """What the reaper's thread runs."""

    def turn(generation: int) -> bool:
        if not timer._reap(generation):
            return False
        hand_over.hand_out(timer)
        return True

    _live(timer, hand_over, REAPER, turn, fork)


def _work(timer: BaseTimer, hand_over: HandOver, fork: Fork | None) -> None:
    """The thread of an executor of the timer's own."""

    def turn(generation: int) -> bool:
        if not timer._await_work(generation):
            return False
        timer._run_ready()
        return True

    _live(timer, hand_over, EXECUTOR, turn, fork)


def _live(timer: BaseTimer, hand_over: HandOver, role: int, turn: Callable[[int], bool], fork: Fork | None) -> None:
    """A thread's life: turn after turn. No error ends it, because it would take all timers that follow with it."""
    if fork is not None:
        fork.wait()
    hand_over._at_work.append(threading.current_thread())
    generation = timer._take_role(role)
    if generation is not None:
        try:
            while _has_turn(timer, turn, generation):
                pass
        finally:
            if timer._generation() == generation:
                timer._leave_role(role, generation)
            else:
                end_forked_thread()
    hand_over._at_work.remove(threading.current_thread())


def _has_turn(timer: BaseTimer, turn: Callable[[int], bool], generation: int) -> bool:
    try:
        return turn(generation)
    except BaseException as error:  # the clock, a callable, failed, say: report it, and do not spin
        if timer._is_stopping():
            return False
        try:
            timer._report(timer, error)
        except BaseException:
            pass  # there is no memory to tell of it with, say: what is due is tried again, and will tell
        time.sleep(0.1)
        return True
