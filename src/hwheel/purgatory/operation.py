"""DelayedOperation: something that waits for a condition, but at most so long.

The lock of an operation. `try_complete`, `on_complete` and `on_expiration` run under it, and it is what makes
completing happen once. Who waits for it, and who does not:

- A check (`safe_try_complete`, and so `check_and_complete`) never waits. If the lock is taken it leaves word, in
  `_missed`, and whoever gives the lock up looks for that word and checks again. So two operations whose `on_complete`
  check each other's keys cannot deadlock, and no check is lost: the word is left before the second look at the lock,
  and looked for after the lock is free, so one of the two sees the other.
- Completing (`force_complete`, the timeout) waits for a check that is under way, because who completes is told that
  `on_complete` has run. An operation that is completed already is not waited for; so an `on_complete` may complete
  other operations. A `try_complete` may not: it would wait with a lock in hand that somebody else may wait for.

Under an operation's lock those of the purgatory may be taken (see watch_lists.py and purgatory.py), never the reverse.
"""

import threading
from collections.abc import Callable
from typing import SupportsIndex

from hwheel_core import TimerTask

from hwheel.purgatory.operation_lock import OperationLock
from hwheel.purgatory.watcher import Watcher

# Looked up once: threading.RLock is a function in front of this class, and both are called for every operation.
_RLock = type(threading.RLock())
_cancel_timeout = TimerTask.cancel


class DelayedOperation(TimerTask):
    """DelayedOperation(delay_ms)

    An operation that is completed by a condition, which `try_complete()` checks, or by its timeout, and exactly once.
    Subclass it. The names and their meaning are Kafka's (DelayedOperation.java).

    Override:
        try_complete(): look at the condition; if it holds `return self.force_complete()`, else return False.
        on_complete(): what completing means.
        on_expiration(): what there is to do besides if it was the timeout that completed it.

    Arguments:
        delay_ms: the timeout in ms, as TimerTask's.

    An operation goes into one purgatory, once.

    Thread-safety: every method may be called from any thread.

    >>> from hwheel.purgatory import DelayedOperation
    >>> class Order(DelayedOperation):
    ...     paid = False
    ...     def try_complete(self):
    ...         return self.paid and self.force_complete()
    ...     def on_complete(self):
    ...         print("shipped" if self.paid else "given up")
    >>> order = Order(delay_ms=60_000)
    >>> order.safe_try_complete()
    False
    >>> order.paid = True
    >>> order.safe_try_complete(), order.safe_try_complete()
    shipped
    (True, False)
    """

    __slots__ = ("__weakref__", "_completed", "_lock", "_missed", "_watcher")

    def __init__(self, delay_ms: float | SupportsIndex) -> None:
        super().__init__(delay_ms)
        self._lock = _RLock()
        self._completed = False
        self._missed = False                    # somebody wanted to check and found the lock taken
        self._watcher: Watcher | None = None    # while a purgatory watches the operation

    # --- what a subclass says ------------------------------------------------------------------------------------

    def try_complete(self) -> bool:
        """Looks at the condition: `return self.force_complete()` if it holds, else False.

        Called under `lock`, whenever a key is checked that the operation is watched for; it must not wait for anything.
        """
        raise NotImplementedError(f"{type(self).__name__} has to override try_complete()")

    def on_complete(self) -> None:
        """What completing means. Called once, under `lock`, whoever completes the operation."""
        raise NotImplementedError(f"{type(self).__name__} has to override on_complete()")

    def on_expiration(self) -> None:
        """Called under `lock`, after on_complete() and even if that raised, if the timeout completed the operation."""

    # --- what everybody calls ------------------------------------------------------------------------------------

    @property
    def is_completed(self) -> bool:
        """True from the moment that somebody has begun to complete the operation."""
        return self._completed

    @property
    def lock(self) -> OperationLock:
        """The operation's lock: reentrant, a context manager. Hold it to change what `try_complete()` looks at."""
        return OperationLock(self)

    def force_complete(self) -> bool:
        """Completes the operation now. True if this call did it; then on_complete() has run. False if it was completed.

        Raises:
            What on_complete() raises; the operation is completed nevertheless.
        Runtime complexity: O(1), but see `purge_interval` of the purgatory.
        Thread-safety: waits while another thread holds `lock`: not to be called for another operation in
        try_complete().
        """
        if self._completed:
            return False
        lock = self._lock
        lock.acquire()      # half the time of `with`
        try:
            if self._completed:
                return False
            self._completed = True
            _cancel_timeout(self)
            try:
                watcher = self._watcher
                if watcher is not None:
                    self._watcher = None
                    watcher.purgatory._completed_one(watcher)
            finally:
                self.on_complete()
        finally:
            lock.release()
        return True

    def safe_try_complete(self) -> bool:
        """try_complete() under the lock. True if this call completed the operation.

        If another thread holds the lock this does not wait: that thread will check again, and the answer is False.

        Raises:
            What try_complete() and on_complete() raise.
        """
        acquire = self._lock.acquire
        while not self._completed:
            if not acquire(False):
                self._missed = True
                if not acquire(False):
                    return False
            try:
                self._missed = False
                done = not self._completed and self.try_complete()
            except BaseException:
                self._let_go()
                raise
            self._lock.release()
            if done or not self._missed:
                return bool(done)
        return False

    def safe_try_complete_or_else(self, action: Callable[[], object]) -> bool:
        """try_complete(); if it is False, action() and try_complete() once more, all under one hold of the lock.

        `try_complete_else_watch` is made of this, with an `action` that begins to watch: an event before it is seen by
        the second look, and one after it finds the operation watched.

        Raises:
            What try_complete(), on_complete() and action() raise.
        """
        self._lock.acquire()
        try:
            done = self.try_complete()
            if not done:
                action()
                done = self.try_complete()
        except BaseException:
            self._let_go()
            raise
        self._lock.release()
        return bool(done or (self._missed and self.safe_try_complete()))

    def run(self) -> None:
        """The timeout: completes the operation, and then calls on_expiration(), unless it is completed."""
        with self._lock:
            if self._completed:
                return
            if self._watcher is not None:
                self._watcher.purgatory._expired_one()
            try:
                self.force_complete()
            finally:
                self.on_expiration()

    def cancel(self) -> bool:
        """Takes the timeout away, and that alone: TimerTask's cancel(). True if it was still to come."""
        cancelled = super().cancel()
        watcher = self._watcher
        if cancelled and watcher is not None:
            watcher.purgatory._delayed_no_more(watcher)
        return cancelled

    def _outlives_purgatory(self) -> bool:
        """close() has taken the operation out. True: it is returned to whoever closes."""
        return True

    def _let_go(self) -> None:
        """Gives the lock up and makes up for the checks that found it taken; their errors are not this thread's."""
        self._lock.release()
        watcher = self._watcher
        if self._missed and watcher is not None:
            watcher.purgatory._check(self)
        elif self._missed:
            self.safe_try_complete()
