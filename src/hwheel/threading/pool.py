"""Threads for work that may take any time: as many as are busy at once, and few when nothing blocks.

Locking: `_lock` guards every field. It is held for a few lines of this module's own code; no job, and nothing else that
could wait, runs under it. Whoever starts a thread does so without it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeAlias

from hwheel.timers.lifecycle import end_forked_thread
from hwheel.timers.start_thread import start_thread
from hwheel.timers.uncaught import report_uncaught
from hwheel_core import RLock

Job: TypeAlias = Callable[[], object]
_Inbox: TypeAlias = SimpleQueue[Job | None]

IDLE_NAME = "idle timer thread"
READY_THREADS = 4  # so many are started without asking whether they are needed
PATIENCE_S = 0.01  # how long all threads may be busy before there is one more
QUICK_JOB_S = 0.001  # jobs that take less than this on average need no more threads: they would wait for the GIL
LINGER_S = 10.0  # how long a thread waits for its next job before it ends


class ThreadPool:
    """An elastic pool. `submit(job)` has the job run in a thread; it must not raise.

    A job gets an idle thread if there is one. If none is idle and none has become free for PATIENCE_S, all of them are
    blocked, and a thread is started at once. Otherwise the job queues up, and the pool looks again in PATIENCE_S: if it
    finds jobs that take long twice in a row (once could be the machine), it grows by a quarter, and looks on until the
    queue is empty. So a thousand quick jobs share four threads, and a thousand jobs that block get a thousand within
    some tenths of a second. A thread without work for LINGER_S ends.

    Arguments:
        daemon: whether the threads are daemons. If not, the interpreter's exit waits for them: see leave().
        call_later: call_later(seconds, callback), by which the pool has itself called to look again.
        least: how many threads stay, however long they are idle.
    """

    def __init__(
        self, *, daemon: bool, call_later: Callable[[float, Callable[[], None]], object], least: int = 0
    ) -> None:
        self._daemon = daemon
        self._least = least
        self._call_later = call_later
        self._lock = RLock()  # a signal handler may start a timer
        self._queue: deque[Job] = deque()
        self._idle: dict[threading.Thread, _Inbox] = {}  # the last is the first to work again, the others may end
        self._threads: set[threading.Thread] = set()  # those that are just starting included
        self._taken = 0  # jobs that a thread has begun with
        self._moved_at = 0.0  # when a thread took a job or was started last
        self._taken_before = 0  # _taken when the pool looked last
        self._looking = False  # it will look again
        self._slow = False  # what it saw
        self._leaving = False
        self._forked = False  # this is a child, and the pool its parent's

    def __len__(self) -> int:
        return len(self._threads)

    def submit(self, job: Job) -> None:
        """Has the job run in a thread, now or as soon as one is there."""
        new: list[threading.Thread] = []
        look = False
        try:
            with self._lock:
                if self._idle:
                    self._begin()
                    thread = next(reversed(self._idle))
                    self._idle[thread].put(job)
                    self._idle.pop(thread, None)  # last, because one that is not among the idle ones is never called
                    return
                all_blocked = not self._queue and time.monotonic() - self._moved_at > PATIENCE_S
                self._queue.append(job)
                self._make(1 if len(self) < READY_THREADS or all_blocked else 0, new)
                if not self._looking:
                    look = self._looking = True
                    self._slow = False
                    self._taken_before = self._taken
            self._set_off(new, look)
        except BaseException:
            self._recover(new, look)
            raise

    def fill(self) -> None:
        """Starts the threads that are to stay, if they are not there."""
        new: list[threading.Thread] = []
        try:
            with self._lock:
                self._make(self._least - len(self), new)
            self._set_off(new, False)
        except BaseException:
            self._recover(new, False)
            raise

    def leave(self) -> None:
        """From now on a thread ends when it has no work, at once. Work is still taken."""
        with self._lock:
            self._leaving = True
            for thread, inbox in [*self._idle.items()]:
                inbox.put(None)
                self._threads.discard(thread)
                self._idle.pop(thread, None)

    def abandon(self) -> None:
        """In the child of a fork: no thread came along but perhaps the one that forked, which ends after its job, and
        the process with it."""
        self._forked = True
        self._queue.clear()
        self._idle.clear()
        self._leaving = True

    def _look(self) -> None:
        """Some time after a job queued up: if the queue does not move as it should, the pool grows."""
        new: list[threading.Thread] = []
        look = True
        try:
            with self._lock:
                taken = self._taken - self._taken_before
                self._taken_before = self._taken
                slow_before, self._slow = self._slow, taken * QUICK_JOB_S < len(self) * PATIENCE_S
                if slow_before and self._slow:
                    self._make(min(len(self._queue), max(1, len(self) // 4)), new)
                look = self._looking = bool(self._queue)
            self._set_off(new, look)
        except BaseException:
            self._recover(new, look)
            raise

    def _look_later(self) -> None:
        try:
            self._call_later(PATIENCE_S, self._look)
        except BaseException:
            self._looking = False  # so that the next job sees to it
            raise

    def _make(self, count: int, new: list[threading.Thread]) -> None:
        """Makes threads, which are counted from now on and are to be started, or to be counted no more."""
        for _ in range(count):
            new.append(threading.Thread(target=self._work, name=IDLE_NAME, daemon=self._daemon))
            self._threads.add(new[-1])
            self._moved_at = time.monotonic()

    def _set_off(self, new: list[threading.Thread], look: bool) -> None:
        """Starts them, and has somebody look later. What the system refuses is asked for again at the next look."""
        for thread in new:
            try:
                start_thread(thread)
            except RuntimeError:
                self._threads.discard(thread)
        if look:
            self._look_later()

    def _recover(self, new: list[threading.Thread], look: bool) -> None:
        """After an interruption. A thread that is there counts itself when it begins, and may do so after this."""
        for thread in new:
            if thread.ident is None:
                self._threads.discard(thread)
        if look:
            self._looking = True
            self._look_later()  # if that comes twice, it looks twice

    def _work(self) -> None:
        thread = threading.current_thread()
        inbox: _Inbox = SimpleQueue()
        self._threads.add(thread)
        try:
            while (job := self._next(thread, inbox)) is not None:
                try:
                    job()
                except BaseException as error:  # the thread is counted on
                    report_uncaught(error, thread)
                del job  # an idle thread holds on to nothing
        finally:
            self._threads.discard(thread)
            if self._forked:
                end_forked_thread()

    def _begin(self) -> None:
        self._taken += 1
        self._moved_at = time.monotonic()

    def _next(self, thread: threading.Thread, inbox: _Inbox) -> Job | None:
        """The calling thread's next job; None: it is to end, and is no longer counted."""
        with self._lock:
            if self._queue:
                self._begin()
                return self._queue.popleft()
            if self._leaving:
                self._threads.discard(thread)
                return None
            self._idle[thread] = inbox
        try:
            job = inbox.get(timeout=LINGER_S)
        except Empty:
            with self._lock:
                if inbox.empty() and len(self) > self._least:
                    self._idle.pop(thread, None)
                    self._threads.discard(thread)
                    return None
            job = inbox.get()  # something came in at the last moment, or this thread is one of those that stay
        if thread in self._idle or not inbox.empty():
            with self._lock:  # a submit() is about to take it out there, or was interrupted before it could
                self._idle.pop(thread, None)
                more = [inbox.get() for _ in range(inbox.qsize())]
            for another in more:
                if another is not None:
                    self.submit(another)
        return job
