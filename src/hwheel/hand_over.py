"""The threads of a SystemTimer, and the ways from what is due to who runs it.

A HandOver owns the threads. The reaper waits in compiled code without the GIL. With a thread of the timer's own as
executor the reaper never needs the GIL: it moves what is due to a list, on which that thread waits. For "inline" and
for a foreign executor the reaper comes back to Python with each batch that fell due and hands it out here.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, wait
from typing import Any

from hwheel.tickets import give_ticket, run_with_ticket, runs_here, take_ticket

REAPER = "reaper"
EXECUTOR = "executor"


def hand_over_to(executor: Executor | str | None, *, reaper: bool) -> "HandOver":
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

    def __init__(self, *, reaper: bool) -> None:
        self.has_reaper = reaper
        self.forget()

    def forget(self) -> None:
        """After a fork, in the child: there are no threads, and the lock may have been somebody's."""
        self._starting = threading.Lock()
        self._threads: dict[str, threading.Thread] = {}

    def start(self, timer: Any) -> None:
        """Starts the threads. One that cannot be started is an error at the add, which adds nothing then."""
        with self._starting:
            timer._prepare(self.has_worker)
            if self.has_worker:
                self._start_thread(EXECUTOR, timer, _work)
            if self.has_reaper:
                self._start_thread(REAPER, timer, _reap)
            timer._set_started(True)

    def _start_thread(self, role: str, timer: Any, loop: Callable[..., None]) -> None:
        if role in self._threads:
            return
        thread = threading.Thread(target=loop, args=(timer, self), name=f"{role}-{timer.name}", daemon=True)
        thread.start()
        self._threads[role] = thread

    def hand_out(self, timer: Any) -> None:
        """Hands out what is ready; called in the thread that found it so."""
        timer._run_ready()

    def drain(self, timer: Any, give_up: float | None) -> list[Any]:
        """Has everything that is ready run, until give_up. Returns what was taken and yet did not run."""
        if not self._threads or threading.current_thread() in self._threads.values():
            timer._run_ready()
        else:
            timer._stop(True)
            self.join(give_up)
        return []

    def join(self, give_up: float | None) -> None:
        """Waits for the threads to end, but not for the one that this is called in."""
        for thread in [*self._threads.values()]:
            if thread is not threading.current_thread():
                thread.join(_left(give_up))

    def leave(self) -> None:
        """At interpreter exit: waits for the reaper, which runs no Python code but in "inline" and ends at once."""
        if REAPER in self._threads and self.has_worker:
            self._threads[REAPER].join(1.0)


class OwnWorker(HandOver):
    """executor=None: one thread of the timer's own, which waits for what is ready by itself."""

    has_worker = True

    def hand_out(self, timer: Any) -> None:
        pass


class Foreign(HandOver):
    """A concurrent.futures.Executor, to which each task is submitted by itself."""

    def __init__(self, executor: Any, *, reaper: bool) -> None:
        super().__init__(reaper=reaper)
        self._executor = executor

    def forget(self) -> None:
        super().forget()
        # What the executor has not finished, and how to undo its hand-over.
        self._outstanding: dict[Future[Any], tuple[Any, ...]] = {}

    def hand_out(self, timer: Any) -> None:
        while (ready := timer._pop_ready()) is not None:
            self._submit(timer, ready)

    def drain(self, timer: Any, give_up: float | None) -> list[Any]:
        if threading.current_thread() not in self._threads.values():
            timer._stop(True)
            self.join(give_up)      # the reaper hands out what it has begun with
        self.hand_out(timer)
        if runs_here(timer):
            return []               # the executor may have no thread but this one
        wait([*self._outstanding], _left(give_up))
        not_run = []
        for future in [*self._outstanding]:
            entry = self._outstanding.pop(future, None)
            if entry is not None and future.cancel():
                not_run.append(timer._take_back(*entry))
        return not_run

    def _submit(self, timer: Any, ready: tuple[Any, ...]) -> None:
        source, _, callback, args, kwargs = ready
        ticket = give_ticket(timer, source)
        try:
            future = self._executor.submit(run_with_ticket, ticket, callback, args, kwargs)
        except BaseException as error:
            take_ticket(ticket)
            timer._report(source, error)
            timer._restart(source)
            return
        self._outstanding[future] = ready
        future.add_done_callback(lambda future: self._settle(timer, source, ticket, future))

    def _settle(self, timer: Any, source: Any, ticket: int, future: Future[Any]) -> None:
        take_ticket(ticket)
        entry = self._outstanding.pop(future, None)
        if not future.cancelled():
            error = future.exception()
        elif entry is not None:
            error = CancelledError("the executor was shut down before it ran this")
        else:
            return                  # drain took it back
        if error is not None:
            timer._report(source, error)
        timer._restart(source)


def _left(give_up: float | None) -> float | None:
    return None if give_up is None else max(0.0, give_up - time.monotonic())


def _reap(timer: Any, hand_over: HandOver) -> None:
    """The reaper's thread."""
    while True:
        try:
            if not timer._reap():
                return
        except BaseException as error:      # the clock, a callable, failed: say so, and do not spin
            if timer._is_stopping():
                return
            timer._report(timer, error)
            time.sleep(0.1)
            continue
        hand_over.hand_out(timer)


def _work(timer: Any, hand_over: HandOver) -> None:
    """The thread of an executor of the timer's own."""
    while timer._await_work():
        timer._run_ready()
