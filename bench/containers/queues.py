"""Queues of delayed items behind one interface: ours, and what Python programs use instead."""

import heapq
import queue
import threading
from itertools import count
from typing import Any

from hwheel import DelayQueue, ManualTimer
from lib.machine import installed

FAR_S = 1e6  # later than every deadline


class Delaying:
    """A thread-safe queue.

    put: Add an item that is due after this delay, and return its key for reset and remove.
    get: Return the first item. All items are due.
    lacks: The operations that the queue does not have.
    """

    name: str
    module: str | None = None
    lacks: frozenset[str] = frozenset()

    def put(self, item: Any, delay_s: float) -> Any:
        raise NotImplementedError

    def reset(self, key: Any, delay_s: float) -> object:
        raise NotImplementedError

    def remove(self, key: Any) -> object:
        raise NotImplementedError

    def let_all_fall_due(self) -> None:
        """Advance the clock."""

    def get(self) -> Any:
        raise NotImplementedError


class Ours(Delaying):
    name = "hwheel.DelayQueue"

    def __init__(self) -> None:
        self.timer = ManualTimer()
        items = DelayQueue[Any](timer=self.timer)
        self.put = items.put  # type: ignore[method-assign]
        self.reset = items.reset  # type: ignore[method-assign]
        self.remove = items.remove  # type: ignore[method-assign]
        self.get = items.get  # type: ignore[method-assign]

    def let_all_fall_due(self) -> None:
        self.timer.advance(FAR_S)


class OfPriorityQueue(Delaying):
    """Tuples (when, number, item). get() does not check deadlines."""

    name = "queue.PriorityQueue"
    lacks = frozenset({"reset", "remove"})

    def __init__(self) -> None:
        self.items: queue.PriorityQueue[Any] = queue.PriorityQueue()
        self.numbers = count()

    def put(self, item: Any, delay_s: float) -> None:
        self.items.put((delay_s, next(self.numbers), item))

    def get(self) -> Any:
        return self.items.get()[2]


class OfHeap(Delaying):
    """Lists [when, number, item] in a heap under a lock. A removed item is replaced by None."""

    name = "heapq and a lock"

    def __init__(self) -> None:
        self.heap: list[list[Any]] = []
        self.numbers = count()
        self.lock = threading.Lock()

    def put(self, item: Any, delay_s: float) -> list[Any]:
        entry = [delay_s, next(self.numbers), item]
        with self.lock:
            heapq.heappush(self.heap, entry)
        return entry

    def remove(self, key: list[Any]) -> Any:
        with self.lock:
            item, key[2] = key[2], None
        return item

    def reset(self, key: list[Any], delay_s: float) -> list[Any]:
        return self.put(self.remove(key), delay_s)

    def get(self) -> Any:
        with self.lock:
            while True:
                item = heapq.heappop(self.heap)[2]
                if item is not None:
                    return item


class OfSortedList(Delaying):
    """Tuples (when, number, item) in a sorted list under a lock."""

    name = "sortedcontainers and a lock"
    module = "sortedcontainers"

    def __init__(self) -> None:
        from sortedcontainers import SortedList

        self.items = SortedList()
        self.numbers = count()
        self.lock = threading.Lock()

    def put(self, item: Any, delay_s: float) -> tuple[Any, ...]:
        entry = (delay_s, next(self.numbers), item)
        with self.lock:
            self.items.add(entry)
        return entry

    def remove(self, key: tuple[Any, ...]) -> Any:
        with self.lock:
            self.items.remove(key)
        return key[2]

    def reset(self, key: tuple[Any, ...], delay_s: float) -> tuple[Any, ...]:
        return self.put(self.remove(key), delay_s)

    def get(self) -> Any:
        with self.lock:
            return self.items.pop(0)[2]


ALL: list[Any] = [Ours, OfHeap, OfPriorityQueue, OfSortedList]


def available() -> tuple[list[Any], list[str]]:
    """Return the installed ones, and a note for each of the others."""
    return installed(ALL)
