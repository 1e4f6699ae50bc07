"""An elastic pool of threads: it grows while jobs block, and stays small while they do not.

Locking: `_lock` guards the queue and the idle threads. Only a few lines of this module run under it; threads
are started without it. A thread counts itself, because Ctrl-C may interrupt the thread that starts it.
"""

import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeAlias

from hwheel.timers.base import report_uncaught
from hwheel.timers.lifecycle import end_forked_thread
from hwheel_core import RLock

Job: TypeAlias = Callable[[], object]
_Inbox: TypeAlias = SimpleQueue[Job | None]

IDLE_NAME = "idle timer thread"
INITIAL_THREADS = 4  # the pool grows to this size without checks
CHECK_INTERVAL_S = 0.01  # between two checks of a queue
QUICK_JOB_S = 0.001  # if jobs take less than this on average, more threads would only wait for the GIL
IDLE_TIMEOUT_S = 10.0  # after which an idle thread ends


class ThreadPool:
    """An elastic pool. ``submit(job)`` runs the job in a thread.

    A job gets an idle thread if there is one. Otherwise it joins the queue. After each CHECK_INTERVAL_S in which the
    jobs of the queue were slow, the pool grows by a quarter. So a thousand quick jobs share four threads, and a
    thousand jobs that block get a thousand threads within some tenths of a second. A thread ends after IDLE_TIMEOUT_S
    without a job.

    Args:
        daemon: Create daemon threads. False: the interpreter's exit waits for the threads; see ``leave()``.
        call_later: ``call_later(seconds, callback)``, which schedules the checks.
        minimum: The number of threads that stay, however long they are idle.
    """

    def __init__(
        self, *, daemon: bool, call_later: Callable[[float, Callable[[], None]], object], minimum: int = 0
    ) -> None:
        self._daemon = daemon
        self._minimum = minimum
        self._call_later = call_later
        self._lock = RLock()  # reentrant, because a signal handler may start a timer
        self._queue: deque[Job] = deque()
        self._idle: dict[threading.Thread, _Inbox] = {}  # the last one gets the next job, so that the others may end
        self._threads: set[threading.Thread] = set()  # including those that are being started
        self._taken = 0  # jobs that a thread has begun
        self._check_scheduled = False
        self._taken_at_check = 0
        self._leaving = False
        self._forked = False  # this process is a child, and the pool is its parent's

    def __len__(self) -> int:
        return len(self._threads)

    def submit(self, job: Job) -> None:
        """Run the job in a thread, now or as soon as one is free. Thread-safe."""
        with self._lock:
            if self._idle:
                _, inbox = self._idle.popitem()
                inbox.put(job)
                self._taken += 1
                return
            self._queue.append(job)
            schedule = not self._check_scheduled
            if schedule:
                self._check_scheduled = True
                self._taken_at_check = self._taken
        if len(self) < INITIAL_THREADS:
            self._grow(1)
        if schedule:
            self._schedule_check()

    def fill(self) -> None:
        """Start the minimum of threads."""
        self._grow(self._minimum - len(self))

    def leave(self) -> None:
        """From now on, end each thread as soon as it has no job. The pool still accepts jobs."""
        with self._lock:
            self._leaving = True
            while self._idle:
                thread, inbox = self._idle.popitem()
                inbox.put(None)
                self._threads.discard(thread)

    def abandon(self) -> None:
        """In the child of a fork, drop the parent's jobs. If one of the threads has forked, it ends after its job."""
        self._forked = True

    def _check(self) -> None:
        """Grow the pool if the queue moves too slowly."""
        with self._lock:
            taken = self._taken - self._taken_at_check
            self._taken_at_check = self._taken
            is_slow = taken * QUICK_JOB_S < len(self) * CHECK_INTERVAL_S
            grow_by = min(len(self._queue), max(1, len(self) // 4)) if is_slow else 0
            schedule = self._check_scheduled = bool(self._queue)
        self._grow(grow_by)
        if schedule:
            self._schedule_check()

    def _schedule_check(self) -> None:
        try:
            self._call_later(CHECK_INTERVAL_S, self._check)
        except BaseException:
            self._check_scheduled = False  # so that the next job tries again
            raise

    def _grow(self, count: int) -> None:
        """Start threads, without the lock. If the system refuses one, the next check tries again."""
        for _ in range(count):
            thread = threading.Thread(target=self._work, name=IDLE_NAME, daemon=self._daemon)
            try:
                self._threads.add(thread)
                thread.start()
            except BaseException as error:
                if thread.ident is None:  # otherwise Ctrl-C came after the thread had begun
                    self._threads.discard(thread)
                if not isinstance(error, (RuntimeError, MemoryError)):
                    raise

    def _work(self) -> None:
        thread = threading.current_thread()
        inbox: _Inbox = SimpleQueue()
        self._threads.add(thread)  # once more, for a start that was interrupted
        try:
            while not self._forked and (job := self._next_job(thread, inbox)) is not None:
                try:
                    job()
                except BaseException as error:  # the pool counts on this thread
                    report_uncaught(error, thread)
                del job  # an idle thread holds no reference to its last job
        finally:
            self._threads.discard(thread)
            if self._forked:
                end_forked_thread()

    def _next_job(self, thread: threading.Thread, inbox: _Inbox) -> Job | None:
        """Wait for the next job of the current thread. None: the thread is to end, and is no longer counted."""
        with self._lock:
            if self._queue:
                self._taken += 1
                return self._queue.popleft()
            if self._leaving:
                self._threads.discard(thread)
                return None
            self._idle[thread] = inbox
        try:
            return inbox.get(timeout=IDLE_TIMEOUT_S)
        except Empty:
            with self._lock:
                if thread in self._idle and len(self) > self._minimum:
                    del self._idle[thread]
                    self._threads.discard(thread)
                    return None
            return inbox.get()  # a job has just arrived, or this thread stays
