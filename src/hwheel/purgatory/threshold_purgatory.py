"""ThresholdPurgatory: wait until a number has been reached, but at most so long."""

import contextlib
import heapq
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, Generic, Protocol, TypeVar

from hwheel_core import TimerClosed, TimerTask

from hwheel.base_timer import BaseTimer
from hwheel.purgatory.base_purgatory import BasePurgatory


class Ordered(Protocol):
    """What has an order."""

    def __lt__(self, other: Any, /) -> bool: ...


Threshold = TypeVar("Threshold", bound=Ordered)

SPARE = 64
"""How many entries of futures that are done the heap may hold, beside as many as there are waiting ones."""


class ThresholdPurgatory(BasePurgatory, Generic[Threshold]):
    """ThresholdPurgatory(name="thresholds", timer=None, *, reaper=True)

    Futures for "when this value has been reached" (Kafka's ThresholdPurgatory.java, where a leader waits for its high
    watermark). A context manager: leaving the block closes it.

    Arguments:
        name: the timer's, if it makes one.
        timer: a SystemTimer or ManualTimer for the timeouts; close() leaves it open. None: a SystemTimer of its own.
        reaper: False: the purgatory's own timer has no threads; move it with `purgatory.timer.advance_clock()`.

    The thresholds are anything that has an order, all of one kind.

    Thread-safety: every method may be called from any thread. A future's callbacks run in the thread that completes it;
    no lock is held then.

    >>> from hwheel.purgatory import ThresholdPurgatory
    >>> with ThresholdPurgatory() as offsets:
    ...     replicated = offsets.await_(1_000, max_wait_ms=60_000)
    ...     offsets.maybe_complete(999)
    ...     before = replicated.done()
    ...     offsets.maybe_complete(1_000, current_time_ms=5)
    >>> before, replicated.result()
    (False, 5)
    """

    def __init__(self, name: str = "thresholds", timer: BaseTimer | None = None, *, reaper: bool = True) -> None:
        self._serial = itertools.count()
        super().__init__(name, timer, reaper)

    def _start_empty(self) -> None:
        # Who takes an entry out of _waiting is who completes its future. The heap knows the lowest threshold; what has
        # left _waiting is dropped from it when it comes up, or by _trim. The lock guards both. Thresholds are compared
        # under it, and it is reentrant for what these, finalisers and signal handlers may do.
        self._lock = threading.RLock()
        self._waiting: dict[int, tuple[Future[float], TimerTask]] = {}
        self._heap: list[tuple[Threshold, int]] = []

    def await_(self, threshold: Threshold, max_wait_ms: float) -> "Future[float]":
        """A future that is completed by the first maybe_complete() with this value or a higher one.

        Its result is the time that was given there. It fails with TimeoutError after max_wait_ms, and may be cancelled.

        Arguments:
            threshold: the least value that will do.
            max_wait_ms: in ms.
        Raises:
            TypeError: the threshold cannot be compared with those that wait, or max_wait_ms is no number.
            ValueError, OverflowError: as TimerTask.
            TimerClosed, TimerFull.
        Runtime complexity: O(log n).
        """
        number = next(self._serial)
        future: Future[float] = Future()
        task = TimerTask(max_wait_ms, self._expire, number, max_wait_ms)
        try:
            with self._lock:
                if self._closed:
                    raise TimerClosed("the purgatory is closed")
                self._waiting[number] = future, task
                heapq.heappush(self._heap, (threshold, number))
            self.timer.add(task)
        except BaseException:
            with self._lock:
                self._waiting.pop(number, None)
                self._trim(spare=0)
            raise
        future.add_done_callback(lambda done: self._forget(number, done))
        return future

    def maybe_complete(self, value: Threshold, current_time_ms: float | None = None) -> None:
        """Completes the futures whose threshold is at most `value`, lowest first, with current_time_ms as their result.

        Arguments:
            current_time_ms: None: the timer's time.
        Runtime complexity: O(k log n) for k futures; O(1) if there is none.
        """
        reached = []
        with self._lock:
            while self._heap and not value < self._heap[0][0]:
                entry = self._waiting.pop(heapq.heappop(self._heap)[1], None)
                if entry is not None:
                    reached.append(entry)
        self._complete(reached, current_time_ms)

    def complete_all(self, current_time_ms: float | None = None) -> None:
        """Completes all futures, in the order in which they were made, with current_time_ms as their result.

        Arguments:
            current_time_ms: None: the timer's time.
        """
        self._complete(self._take_all(), current_time_ms)

    def complete_all_exceptionally(self, exception: BaseException) -> None:
        """Fails all futures with the exception."""
        if not isinstance(exception, BaseException):
            raise TypeError(f"exception must be an exception, not {type(exception).__name__}")
        for future, task in self._take_all():
            task.cancel()
            _settle(future.set_exception, exception)

    @property
    def num_waiting(self) -> int:
        """How many futures wait. O(1)."""
        return len(self._waiting)

    def close(self) -> None:
        """Refuses futures from now on, and fails those that wait with TimerClosed. Ends the purgatory's own timer."""
        with self._lock:
            self._closed = True
        self.complete_all_exceptionally(TimerClosed("the purgatory is closed"))
        if self._owns_timer:
            self.timer.close()

    def _waiting_count(self) -> int:
        return self.num_waiting

    def _complete(self, entries: list[tuple["Future[float]", TimerTask]], current_time_ms: float | None) -> None:
        if entries and current_time_ms is None:
            current_time_ms = self.timer.time() * 1000
        for future, task in entries:
            task.cancel()
            _settle(future.set_result, current_time_ms)

    def _expire(self, number: int, max_wait_ms: float) -> None:
        with self._lock:
            entry = self._waiting.pop(number, None)
            self._trim()
        if entry is not None:
            _settle(entry[0].set_exception, TimeoutError(f"not reached in {max_wait_ms} ms"))

    def _forget(self, number: int, future: "Future[float]") -> None:
        """The future is done; by another hand, if it is still waiting here."""
        with self._lock:
            entry = self._waiting.pop(number, None)
            self._trim()
        if entry is not None:
            entry[1].cancel()
        if future.cancelled():
            future.set_running_or_notify_cancel()       # concurrent.futures.wait() does not see it otherwise

    def _take_all(self) -> list[tuple["Future[float]", TimerTask]]:
        with self._lock:
            taken = [*self._waiting.values()]
            self._waiting.clear()
            self._heap.clear()
            return taken

    def _trim(self, spare: int = SPARE) -> None:
        """Drops what is not waiting from the heap, when that is most of it: amortised O(1) a future."""
        if len(self._heap) > 2 * len(self._waiting) + spare or not spare:
            self._heap = [entry for entry in self._heap if entry[1] in self._waiting]
            heapq.heapify(self._heap)


def _settle(method: Callable[[Any], None], outcome: Any) -> None:
    """Sets a future's result or exception, unless a stranger was faster."""
    with contextlib.suppress(InvalidStateError):
        method(outcome)
