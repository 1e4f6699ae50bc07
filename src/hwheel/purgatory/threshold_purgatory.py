"""ThresholdPurgatory: wait until a number has been reached, but at most so long."""

import contextlib
import heapq
import itertools
import operator
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from hwheel.purgatory.base_purgatory import BasePurgatory
from hwheel.purgatory.each import each
from hwheel.timers.base import BaseTimer
from hwheel_core import RLock, TimerClosed, TimerTask


class Ordered(Protocol):
    """A type whose values can be compared by <."""

    def __lt__(self, other: Any, /) -> bool: ...


Threshold = TypeVar("Threshold", bound=Ordered)

SPARE = 64
"""How many entries of futures that are done the heap may hold, beside as many as there are waiting ones."""


class _Waiting(NamedTuple):
    """A future that await_() has given out, and what it waits for."""

    number: int
    threshold: Any
    future: "Future[float]"
    task: TimerTask


class ThresholdPurgatory(BasePurgatory, Generic[Threshold]):
    """ThresholdPurgatory(name="thresholds", timer=None, *, reaper=True)

    Futures for "when this value has been reached" (Kafka's ThresholdPurgatory.java, where a leader waits for its high
    watermark). A context manager: leaving the block closes it.

    Arguments:
        name: the timer's, if it makes one.
        timer: a SystemTimer or ManualTimer for the timeouts; close() leaves it open. Its executor cannot be one of
            processes. None: a SystemTimer of its own.
        reaper: False: the purgatory's own timer has no threads; move it with `purgatory.timer.advance_clock()`.

    The thresholds are anything that has an order, all of one kind. NaN has none.

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

    __module__ = "hwheel.purgatory"

    def __init__(self, name: str = "thresholds", timer: BaseTimer | None = None, *, reaper: bool = True) -> None:
        self._serial = itertools.count()
        self._lock = RLock()
        super().__init__(name, timer, reaper)

    def _start_empty(self) -> None:
        # A future stands in _waiting until it is done, so whatever interrupts a thread that completes some, no future
        # is forgotten: the next one finds it, or close(). Who comes too late for a future leaves it as it is.
        #
        # The heap knows the lowest threshold; what has left _waiting is dropped from it when it comes up, or by _trim.
        # Who compares takes the heap away, for itself alone, and gives it back in the end. Whoever finds none, after an
        # error or inside a comparison, makes one anew of what waits.
        #
        # The lock guards all of it. Thresholds are compared under it, and it is reentrant for what these, finalisers
        # and signal handlers may do. What those add goes to _late, because a comparison that adds would otherwise cause
        # the next one, without end: each call works on what was there when it began, and the next call takes up the
        # rest.
        self._waiting: dict[int, _Waiting] = {}
        self._heap: list[tuple[Any, int]] | None = []
        self._late: list[int] = []  # numbers of what waits and is not yet in the heap
        self._checks = False  # a threshold of these is being compared

    def await_(self, threshold: Threshold, max_wait_ms: float) -> "Future[float]":
        """A future that is completed by the first maybe_complete() with this value or a higher one.

        Its result is the time that was given there. It fails with TimeoutError after max_wait_ms, and may be cancelled.

        Arguments:
            threshold: the least value that will do.
            max_wait_ms: in ms.
        Raises:
            TypeError: the threshold cannot be compared with those that wait, or max_wait_ms is no number.
            ValueError: the threshold is not equal to itself, as NaN is not: no value would reach it.
            ValueError, OverflowError: as TimerTask.
            TimerClosed, TimerFull.
        Runtime complexity: O(log n).
        """
        _check_order(threshold, "threshold")
        number = next(self._serial)
        future: Future[float] = Future()
        task = TimerTask(max_wait_ms, self._expire, number, max_wait_ms)
        is_inside = self._lock._is_owned()
        try:
            with self._lock:
                if self._closed:
                    raise TimerClosed("the purgatory is closed")
                (self._push_late if is_inside else self._push)(_Waiting(number, threshold, future, task))
            self.timer.add(task)
            future.add_done_callback(lambda done: self._forget(number, done))
            # In this order, because another thread may complete it in between: it leaves _waiting when it is done.
            if number not in self._waiting and not future.done():
                # A comparison or a signal handler has forked, and this is the child, where nothing waits: it begins
                # anew.
                task.cancel()
                return self.await_(threshold, max_wait_ms)
            return future
        except BaseException:
            with self._lock:
                self._waiting.pop(number, None)
                self._heap = None  # a threshold that compares with no other must not stay in it
            task.cancel()
            raise

    def maybe_complete(self, value: Threshold, current_time_ms: float | None = None) -> None:
        """Completes the futures whose threshold is at most `value`, lowest first, with current_time_ms as their result.

        Arguments:
            current_time_ms: None: the timer's time.
        Raises:
            ValueError: the value is not equal to itself, as NaN is not, or has no order with a threshold, being neither
                below nor above nor at it. Nothing is completed.
            What the comparison raises. Nothing is completed.
            KeyboardInterrupt, SystemExit: from a future's callback; the other futures are completed all the same.
        Runtime complexity: O(k log n) for k futures; O(1) if there is none.
        """
        _check_order(value, "value")
        try:
            with self._lock:
                reached = self._pop_reached(value)
            if reached:
                self._complete(reached, current_time_ms)
        except BaseException:
            with self._lock:  # because another thread may be about to give back a heap that lacks the same
                self._heap = None  # what was popped from it and is not done still waits
            raise

    def complete_all(self, current_time_ms: float | None = None) -> None:
        """Completes all futures, in the order in which they were made, with current_time_ms as their result.

        Arguments:
            current_time_ms: None: the timer's time.
        """
        self._complete([*self._waiting.values()], current_time_ms)

    def complete_all_exceptionally(self, exception: BaseException) -> None:
        """Fails all futures with the exception."""
        if not isinstance(exception, BaseException):
            raise TypeError(f"exception must be an exception, not {type(exception).__name__}")
        each(lambda entry: self._set_outcome(entry, entry.future.set_exception, exception), [*self._waiting.values()])

    @property
    def num_waiting(self) -> int:
        """How many futures wait. O(1)."""
        return len(self._waiting)

    def close(self) -> None:
        """Refuses futures from now on, and fails those that wait with TimerClosed. Ends the purgatory's own timer."""
        with self._lock:
            self._closed = True
        try:
            self.complete_all_exceptionally(TimerClosed("the purgatory is closed"))
        finally:
            if self._owns_timer:
                self.timer.close()

    def _waiting_count(self) -> int:
        return self.num_waiting

    # --- completing --------------------------------------------------------------------------------------------------

    def _complete(self, entries: list[_Waiting], current_time_ms: float | None) -> None:
        if entries and current_time_ms is None:
            current_time_ms = self.timer.time() * 1000
        each(lambda entry: self._set_outcome(entry, entry.future.set_result, current_time_ms), entries)

    def _set_outcome(self, entry: _Waiting, method: Callable[[Any], None], outcome: Any) -> None:
        """Sets the future's result or exception, unless somebody was faster."""
        try:
            with contextlib.suppress(InvalidStateError):
                method(outcome)
        finally:
            if entry.future.done():
                self._forget(entry.number, entry.future)

    def _expire(self, number: int, max_wait_ms: float) -> None:
        entry = self._waiting.get(number)
        if entry is not None:
            self._set_outcome(entry, entry.future.set_exception, TimeoutError(f"not reached in {max_wait_ms} ms"))

    def _forget(self, number: int, future: "Future[float]") -> None:
        """The future is done, by whatever hand."""
        entry = self._waiting.get(number)
        if entry is None:
            return
        entry.task.cancel()  # first, so that who comes back after an interruption finds the rest to do
        with self._lock:
            entry = self._waiting.pop(number, None)
            self._trim()
        if entry is not None and future.cancelled():
            future.set_running_or_notify_cancel()  # concurrent.futures.wait() does not see it otherwise

    # --- the heap: under the lock ----------------------------------------------------------------------------------

    def _push(self, entry: _Waiting) -> None:
        self._checks = False  # an interrupt may have left it as it was
        heap, late = self._take_heap()
        self._waiting[entry.number] = entry
        heapq.heappush(heap, (entry.threshold, entry.number))
        self._give_back(heap, late)

    def _push_late(self, entry: _Waiting) -> None:
        """By somebody inside the lock. Compares the threshold with one other, because who brings it shall hear if it
        cannot be; but not inside of that comparison."""
        other = next(iter(self._waiting.values()), None)
        if other is not None and not self._checks:
            self._checks = True
            try:
                entry.threshold < other.threshold  # noqa: B015  # pyright: ignore[reportUnusedExpression]
            finally:
                self._checks = False
        self._waiting[entry.number] = entry
        self._late.append(entry.number)

    def _pop_reached(self, value: Any) -> list[_Waiting]:
        """Takes those that the value reaches from the heap, but not from _waiting."""
        reached: list[_Waiting] = []
        heap, late = self._take_heap()
        while heap:
            entry = self._waiting.get(heap[0][1])
            if entry is not None:
                if not _reaches(value, entry.threshold):
                    break
                reached.append(entry)
            heapq.heappop(heap)
        self._give_back(heap, late)
        return reached

    def _take_heap(self) -> tuple[list[tuple[Any, int]], list[int]]:
        """A heap of what waits now, for the caller alone, and the list of what is added until it is given back."""
        new_late: list[int] = []
        heap = self._heap  # from here to the end of this step nothing is called or made: nobody comes in between
        late = self._late
        self._heap = None
        self._late = new_late
        if heap is None:
            heap = [(entry.threshold, entry.number) for entry in [*self._waiting.values()]]
            heapq.heapify(heap)
        else:
            for number in late:
                entry = self._waiting.get(number)
                if entry is not None:
                    heapq.heappush(heap, (entry.threshold, number))
        return heap, new_late

    def _give_back(self, heap: list[tuple[Any, int]], late: list[int]) -> None:
        """Unless somebody inside a comparison has made a heap of its own, or had to: that one knows more."""
        if self._heap is None and self._late is late:
            self._heap = heap

    def _trim(self) -> None:
        """Drops what is not waiting from the heap, when that is most of it: amortised O(1) a future."""
        if self._heap is not None and len(self._heap) > 2 * len(self._waiting) + SPARE:
            self._heap = None  # to be made anew when somebody asks for it


def _reaches(value: Any, threshold: Any) -> bool:
    """Whether the value is the threshold or above it. It is not enough that it is not below: {2} is not below {1}, nor
    is (nan,)."""
    if value < threshold:
        return False
    try:
        at_or_above = operator.le(threshold, value)
    except TypeError:  # of what has an order, but only says what is less
        return True
    if not at_or_above:
        raise ValueError(f"{value!r} is neither below the threshold {threshold!r} nor above nor at it")
    return True


def _check_order(value: Any, name: str) -> None:
    """Refuses what has no place in any order."""
    if isinstance(value, (tuple, list)):  # which take an item to be equal to itself
        for item in value:
            _check_order(item, name)
    elif value != value:
        raise ValueError(f"{name} must not be {value!r}: it is not equal to itself")
