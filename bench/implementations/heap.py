"""A plain heapq with lazy deletion, the usual replacement for the standard library's timers."""

import time
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from implementations.base import NO_BULK, NO_RESCHEDULE, Callback, Implementation

WHEN, CALLBACK, ARGUMENT = 0, 2, 3


class Heap(Implementation):
    """Entries are lists (when, number, callback, argument). A cancelled entry loses its callback and stays."""

    name = "heapq"
    lacks = {name: why for name, why in NO_BULK.items() if name != "bulk add"}
    remarks = NO_RESCHEDULE | {"bulk add": "heapify"}

    def __init__(self, pending: int, *, flowing: bool = False) -> None:
        self.heap: list[list[Any]] = []
        self.numbers = count()
        self.now_s = 0.0
        self.clock: Callable[[], float] = (lambda: self.now_s) if flowing else time.monotonic

    def add(self, delay_s: float, callback: Callback, argument: Any) -> list[Any]:
        entry = [self.clock() + delay_s, next(self.numbers), callback, argument]
        heappush(self.heap, entry)
        return entry

    def cancel(self, handle: list[Any]) -> None:
        handle[CALLBACK] = handle[ARGUMENT] = None

    def expire(self) -> None:
        heap = self.heap
        while heap:
            _, _, callback, argument = heappop(heap)
            if callback is not None:
                callback(argument)

    def flow(self, is_done: Callable[[], bool]) -> None:
        heap = self.heap
        while heap:
            when, _, callback, argument = heappop(heap)
            if callback is not None:
                self.now_s = when
                callback(argument)

    def add_many(self, delays_ms: Any, fired: list[Any]) -> Any:
        now, append = self.clock(), fired.append
        entries = [[now + delay / 1000, next(self.numbers), append, i] for i, delay in enumerate(delays_ms.tolist())]
        self.heap += entries
        heapify(self.heap)
        return entries

    def cancel_many(self, handle: Any, indices: Any) -> object:
        for index in indices.tolist():
            self.cancel(handle[index])
        return None

    def close(self) -> None:
        self.heap.clear()
