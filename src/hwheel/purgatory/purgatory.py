"""DelayedOperationPurgatory: the operations that wait, by key and by time."""

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

from hwheel_core import TimerClosed

from hwheel.arguments import whole_ms
from hwheel.base_timer import BaseTimer
from hwheel.purgatory.base_purgatory import BasePurgatory
from hwheel.purgatory.operation import DelayedOperation
from hwheel.purgatory.stats import PurgatoryStats
from hwheel.purgatory.watch_lists import WatchLists
from hwheel.purgatory.watcher import Watcher
from hwheel.system_timer import SystemTimer

Operation = TypeVar("Operation", bound=DelayedOperation)
_T = TypeVar("_T")


class DelayedOperationPurgatory(BasePurgatory, Generic[Operation]):
    """DelayedOperationPurgatory(name, timer=None, *, purge_interval=1000, reaper=True)

    Holds operations until their condition or their timeout completes them. A context manager: leaving the block closes
    it. The names and their meaning are Kafka's (DelayedOperationPurgatory.java).

    Arguments:
        name: the timer's, if it makes one.
        timer: a SystemTimer or ManualTimer for the timeouts; close() leaves it open. None: a SystemTimer of its own.
        purge_interval: a completed operation is released at once, but an empty entry stays in the lists of its other
            keys until these are checked, or until more than this many operations have been completed since the last
            purge: then all such entries are removed, by the thread that completed the last one.
        reaper: False: the purgatory's own timer has no threads; `advance_clock()` moves it and runs what falls due.

    Raises:
        TypeError, ValueError: an argument is of the wrong type or negative.

    An exception in an operation that was completed by a check or by its timeout goes to the timer's
    `on_error(operation, error)`, else to threading.excepthook: who changed a key's state is not to blame for it, and
    the other operations of the key are checked as ever. Who completes one operation by itself, with `force_complete()`
    or `try_complete_else_watch()`, gets its exception.

    Thread-safety: every method may be called from any thread, also inside the operations' own methods.

    >>> from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
    >>> stock = {"tea": 0}
    >>> class Order(DelayedOperation):
    ...     def try_complete(self):
    ...         return stock["tea"] > 0 and self.force_complete()
    ...     def on_complete(self):
    ...         print("shipped" if stock["tea"] else "sold out")
    >>> with DelayedOperationPurgatory("orders") as orders:
    ...     waits = not orders.try_complete_else_watch(Order(60_000), ["tea"])
    ...     stock["tea"] = 5
    ...     print(waits, orders.check_and_complete("tea"))
    shipped
    True 1
    """

    def __init__(
        self, name: str, timer: BaseTimer | None = None, *, purge_interval: int = 1000, reaper: bool = True
    ) -> None:
        self.purge_interval = whole_ms(purge_interval, "purge_interval")
        super().__init__(name, timer, reaper)

    def _start_empty(self) -> None:
        self._lists = WatchLists()
        # Guards the counters below. Nothing is called under it; it is reentrant for finalisers and signal handlers.
        self._counting = threading.RLock()
        self._delayed = self._completed = self._expired = self._purged = 0
        self._to_purge: list[Watcher] = []      # of operations that were completed since the last purge

    # --- operations ----------------------------------------------------------------------------------------------

    def try_complete_else_watch(self, operation: Operation, keys: Iterable[Hashable]) -> bool:
        """Completes the operation if its condition holds; else watches it for the keys and starts its timeout.

        The condition is looked at before and again after the operation is watched: no event in between is missed.

        Arguments:
            operation: not completed, and not in a purgatory before.
            keys: hashable, compared by value; at least one; one given twice counts once.

        Returns True if the operation was completed here.

        Raises:
            TypeError: operation is no DelayedOperation; keys is a str, no iterable, or holds what cannot be hashed.
            ValueError: no keys, or the operation is or was in a purgatory.
            TimerClosed: the purgatory or its timer is closed.
            TimerFull, OverflowError: as the timer's add().
            What the operation's own methods raise. After any of these the operation is not watched.

        Runtime complexity: O(keys).
        Thread-safety: any thread, but an operation is added by one.
        """
        if not isinstance(operation, DelayedOperation):
            raise TypeError(f"operation must be a DelayedOperation, not {type(operation).__name__}")
        return self._add(operation, keys, delayed=True)

    def _add(self, operation: DelayedOperation, keys: Iterable[Hashable], *, delayed: bool) -> bool:
        """try_complete_else_watch, or without a timeout."""
        if isinstance(keys, (str, bytes)):
            raise TypeError(f"keys must be a list of keys, not one key: {keys!r}")
        watched_keys = tuple(keys)
        hash(watched_keys)                          # a TypeError if one of them cannot be hashed
        if not watched_keys:
            raise ValueError("the list of keys must not be empty")
        if self._closed:
            raise TimerClosed("the purgatory is closed")
        if operation._completed:
            return False
        if operation._watcher is not None or operation.cancelled:
            raise ValueError("this operation is in a purgatory already, or was cancelled; make a new one")
        watcher = Watcher(operation, watched_keys, self)
        try:
            if operation.safe_try_complete_or_else(watcher.enter):
                if watcher.operation is not None:
                    self._count_completed()         # at the first look: it was never watched
                else:
                    self._remove([watcher])         # at the second: it leaves the lists that it was put into
                return True
            if delayed:
                self._counting.acquire()            # half the time of `with`
                try:
                    if watcher.operation is not None and not operation.cancelled:
                        watcher.delayed = True
                        self._delayed += 1
                finally:
                    self._counting.release()
                self.timer.add(operation)
            if self._closed:
                raise TimerClosed("the purgatory is closed")
        except BaseException as error:
            if self._withdraw(operation, watcher) or not isinstance(error, TimerClosed):
                raise
        if watcher.operation is None:               # completed meanwhile, or among what close() returned
            operation.cancel()
            self._remove([watcher])
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Looks at every operation that is watched for the key. Returns how many this call completed.

        To be called after every change that may make a condition come true; without holding a lock that an operation
        might want. An operation that another thread is looking at is left to that thread, which looks again.

        Raises:
            TypeError: the key is not hashable.
        Runtime complexity: O(operations watched for the key); O(1) if there is none.
        """
        watching = self._lists.watching(key)
        if not watching:
            return 0
        completed = 0
        gone = []
        for watcher in watching:
            operation = watcher.operation
            if operation is not None:
                if self._check(operation):
                    completed += 1
                elif not operation._completed:
                    continue
            gone.append(watcher)
        if gone:
            self._lists.remove(key, gone)
        return completed

    def cancel_for_key(self, key: Hashable) -> list[Operation]:
        """Ends the watch for the key, and the timeouts of the operations that were watched for it; returns these.

        They are not completed: who cancels them decides what becomes of them, with force_complete(), say. Those that
        are watched for other keys as well still are.
        """
        cancelled = [watcher.operation for watcher in self._lists.take(key)]
        waiting: list[Any] = [operation for operation in cancelled if operation is not None]
        for operation in waiting:
            operation.cancel()
        return waiting

    def purge(self) -> int:
        """Removes the entries of completed operations from all watch lists. Returns how many there were.

        It comes by itself, see purge_interval.

        Runtime complexity: O(keys of the operations completed since the last purge), whatever is waiting besides.
        """
        with self._counting:
            completed, self._to_purge = self._to_purge, []
        purged = self._remove(completed)
        with self._counting:
            self._purged += purged
        return purged

    # --- asyncio -------------------------------------------------------------------------------------------------

    async def wait(self, keys: Iterable[Hashable], predicate: Callable[[], _T], timeout: float | None = None) -> _T:
        """Waits until predicate() is true, and returns what it returned; for coroutines.

        The predicate is called here at first, and then by each `check_and_complete()` of one of the keys, in the thread
        that calls it, which may be any.

        Arguments:
            keys: as try_complete_else_watch's.
            predicate: a callable without arguments; it must not wait for anything.
            timeout: in seconds; None: no timeout.

        Raises:
            TimeoutError: the time is over, and the predicate is not true even now.
            TimerClosed: the purgatory is or was closed.
            What the predicate raises, wherever it was called.
            Otherwise as try_complete_else_watch.

        A task that is cancelled while it waits here leaves nothing behind.
        """
        from hwheel.purgatory.asyncio_wait import wait      # asyncio takes its time to be imported

        return await wait(self, keys, predicate, timeout)

    # --- looking -------------------------------------------------------------------------------------------------

    @property
    def watched(self) -> int:
        """The lengths of all watch lists together; completed operations count until a check or a purge finds them.

        Runtime complexity: O(keys).
        """
        return self._lists.count()

    @property
    def num_delayed(self) -> int:
        """How many operations have their timeout before them. O(1)."""
        return self._delayed

    def stats(self) -> PurgatoryStats:
        """The counters at this moment. O(keys)."""
        watched = self.watched
        with self._counting:
            return PurgatoryStats(watched, self._delayed, self._completed, self._expired, self._purged)

    # --- life ----------------------------------------------------------------------------------------------------

    def advance_clock(self, timeout_ms: int) -> bool:
        """For reaper=False: waits for the next timeout, at most timeout_ms, and runs what is due. True if any was.

        Raises:
            RuntimeError: the timer has a reaper, or is a ManualTimer, which has its own advance().
        """
        if not isinstance(self.timer, SystemTimer):
            raise RuntimeError("the timer of this purgatory is moved by its own advance()")
        return self.timer.advance_clock(timeout_ms)

    def close(self) -> list[Operation]:
        """Refuses operations from now on, and returns those that are neither completed nor about to be, in order of
        their deadlines. They are not completed, and their timeouts are cancelled. A coroutine that is in wait() gets
        TimerClosed there. Ends the purgatory's own timer.

        Closing again returns an empty list.
        """
        with self._counting:
            if self._closed:
                return []
            self._closed = True
        waiting: list[Any] = []
        for watcher in self._lists.take_all():
            operation = watcher.operation
            if operation is None or not self._withdraw(operation, watcher) or operation.expired:
                continue
            if operation._outlives_purgatory():
                waiting.append(operation)
        with self._counting:
            self._to_purge = []
        if self._owns_timer:
            self.timer.close()
        return sorted(waiting, key=lambda operation: operation.deadline_ms or 0)

    def _waiting_count(self) -> int:
        return self._delayed

    def _after_fork_in_child(self) -> None:
        for watcher in self._lists.all_unlocked():
            if watcher.operation is not None:
                watcher.operation._watcher = None
        super()._after_fork_in_child()

    # --- for the operations --------------------------------------------------------------------------------------

    def _check(self, operation: DelayedOperation) -> bool:
        """safe_try_complete(), with errors reported."""
        try:
            return operation.safe_try_complete()
        except Exception as error:
            self.timer._report(operation, error)
            return operation._completed

    def _completed_one(self, watcher: Watcher) -> None:
        self._counting.acquire()                    # half the time of `with`
        try:
            watcher.operation = None
            self._completed += 1
            if watcher.delayed:
                watcher.delayed = False
                self._delayed -= 1
            self._to_purge.append(watcher)
            due = len(self._to_purge) > self.purge_interval
        finally:
            self._counting.release()
        if due:
            self.purge()

    def _count_completed(self) -> None:
        with self._counting:
            self._completed += 1

    def _expired_one(self) -> None:
        with self._counting:
            self._expired += 1

    def _delayed_no_more(self, watcher: Watcher) -> None:
        with self._counting:
            if watcher.delayed:
                watcher.delayed = False
                self._delayed -= 1

    def _withdraw(self, operation: DelayedOperation, watcher: Watcher) -> bool:
        """Takes an operation out that is not to be completed: an add that failed, a wait that was given up, a close.

        False if it was out already. One that is in the timer is cancelled there.
        """
        with self._counting:
            if watcher.operation is None:
                return False
            watcher.operation = None
        self._delayed_no_more(watcher)
        self._remove([watcher])
        operation._watcher = None
        if operation.pending:
            operation.cancel()
        return True

    def _remove(self, watchers: list[Watcher]) -> int:
        """Takes watchers off all lists that they are on. Returns how many entries there were."""
        by_key: defaultdict[Hashable, list[Watcher]] = defaultdict(list)
        for watcher in watchers:
            for key in watcher.keys:
                by_key[key].append(watcher)
        return sum(self._lists.remove(key, entries) for key, entries in by_key.items())
