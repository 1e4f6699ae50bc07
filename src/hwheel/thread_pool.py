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

from hwheel.forked_locks import free_if_nobody_has_it
from hwheel.uncaught import report_uncaught

Job: TypeAlias = Callable[[], object]
_Inbox: TypeAlias = SimpleQueue[Job | None]

IDLE_NAME = "idle timer thread"
READY_THREADS = 4       # so many are started without asking whether they are needed
PATIENCE_S = 0.01       # how long all threads may be busy before there is one more
QUICK_JOB_S = 0.001     # jobs that take less than this on average need no more threads: they would wait for the GIL
LINGER_S = 10.0         # how long a thread waits for its next job before it ends


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
        self._lock = threading.RLock()      # a signal handler may start a timer
        self._queue: deque[Job] = deque()
        self._idle: list[_Inbox] = []       # the one that worked last is the first to work again, the others may end
        self._size = 0                      # threads, those that are just starting included
        self._taken = 0                     # jobs that a thread has begun with
        self._moved_at = 0.0                # when a thread took a job or was started last
        self._taken_before = 0              # _taken when the pool looked last
        self._looking = False               # it will look again
        self._slow = False                  # what it saw
        self._leaving = False

    def __len__(self) -> int:
        return self._size

    def submit(self, job: Job) -> None:
        """Has the job run in a thread, now or as soon as one is there."""
        with self._lock:
            if self._idle:
                self._begin()
                self._idle.pop().put(job)
                return
            all_blocked = not self._queue and time.monotonic() - self._moved_at > PATIENCE_S
            self._queue.append(job)
            wanted = 1 if self._size < READY_THREADS or all_blocked else 0
            self._count_new(wanted)
            look = not self._looking
            if look:
                self._looking, self._slow = True, False
                self._taken_before = self._taken
        try:
            self._start(wanted)
        finally:
            if look:
                self._look_later()

    def fill(self) -> None:
        """Starts the threads that are to stay, if they are not there."""
        with self._lock:
            wanted = max(0, self._least - self._size)
            self._count_new(wanted)
        self._start(wanted)

    def leave(self) -> None:
        """From now on a thread ends when it has no work, at once. Work is still taken."""
        with self._lock:
            self._leaving = True
            for inbox in self._idle:
                inbox.put(None)
            self._size -= len(self._idle)
            self._idle.clear()

    def abandon(self) -> None:
        """In the child of a fork: no thread came along but perhaps the one that forked, which ends after its job."""
        free_if_nobody_has_it(self._lock)
        self._queue.clear()
        self._idle.clear()
        self._leaving = True

    def _look(self) -> None:
        """Some time after a job queued up: if the queue does not move as it should, the pool grows."""
        with self._lock:
            taken = self._taken - self._taken_before
            self._taken_before = self._taken
            self._looking = bool(self._queue)
            slow_before, self._slow = self._slow, taken * QUICK_JOB_S < self._size * PATIENCE_S
            wanted = min(len(self._queue), max(1, self._size // 4)) if slow_before and self._slow else 0
            self._count_new(wanted)
            look = self._looking
        try:
            self._start(wanted)
        finally:
            if look:
                self._look_later()

    def _look_later(self) -> None:
        try:
            self._call_later(PATIENCE_S, self._look)
        except BaseException:
            self._looking = False           # so that the next job sees to it
            raise

    def _start(self, count: int) -> None:
        """Starts threads that are counted already. What the system refuses is asked for again at the next look."""
        left = count            # to be counted no more if this does not come to its end
        thread = None
        try:
            while left:
                thread = threading.Thread(target=self._work, name=IDLE_NAME, daemon=self._daemon)
                try:
                    thread.start()
                    left -= 1
                except RuntimeError:
                    with self._lock:
                        self._size -= 1
                        left -= 1
        except BaseException:
            with self._lock:
                # One whose start was interrupted while it was waited for is there.
                self._size -= left - (thread is not None and thread.ident is not None)
            raise

    def _work(self) -> None:
        inbox: _Inbox = SimpleQueue()
        while True:
            job = self._next(inbox)
            if job is None:
                return
            try:
                job()
            except BaseException as error:      # the thread is counted on
                report_uncaught(error, threading.current_thread())
            del job         # an idle thread holds on to nothing

    def _begin(self) -> None:
        self._taken += 1
        self._moved_at = time.monotonic()

    def _count_new(self, threads: int) -> None:
        if threads:
            self._size += threads
            self._moved_at = time.monotonic()

    def _next(self, inbox: _Inbox) -> Job | None:
        """The calling thread's next job; None: it is to end, and is no longer counted."""
        with self._lock:
            if self._queue:
                self._begin()
                return self._queue.popleft()
            if self._leaving:
                self._size -= 1
                return None
            self._idle.append(inbox)
        try:
            return inbox.get(timeout=LINGER_S)
        except Empty:
            pass
        with self._lock:
            if inbox in self._idle and self._size > self._least:
                self._idle.remove(inbox)
                self._size -= 1
                return None
        return inbox.get()      # something came in at the last moment, or this thread is one of those that stay
