"""sortedcontainers: a sorted list, from which a cancel removes the entry."""

import time
from collections.abc import Callable
from itertools import count
from typing import Any

from sortedcontainers import SortedList

from implementations.base import NO_BULK, NO_RESCHEDULE, Callback, Implementation


class Sorted(Implementation):
    """Entries are tuples (when, number, callback, argument) in a SortedList."""

    name = "sortedcontainers"
    lacks = {name: why for name, why in NO_BULK.items() if name != "bulk add"}
    remarks = NO_RESCHEDULE | {"bulk add": "SortedList.update"}

    def __init__(self, pending: int, *, flowing: bool = False) -> None:
        self.entries = SortedList()
        self.numbers = count()
        self.now_s = 0.0
        self.clock: Callable[[], float] = (lambda: self.now_s) if flowing else time.monotonic
        self.cancel = self.entries.remove  # type: ignore[method-assign]

    def add(self, delay_s: float, callback: Callback, argument: Any) -> tuple[Any, ...]:
        entry = (self.clock() + delay_s, next(self.numbers), callback, argument)
        self.entries.add(entry)
        return entry

    def expire(self) -> None:
        entries = self.entries
        while entries:
            _, _, callback, argument = entries.pop(0)
            callback(argument)

    def flow(self, is_done: Callable[[], bool]) -> None:
        entries = self.entries
        while entries:
            self.now_s, _, callback, argument = entries.pop(0)
            callback(argument)

    def add_many(self, delays_ms: Any, fired: list[Any]) -> Any:
        now, append = self.clock(), fired.append
        added = [(now + delay / 1000, next(self.numbers), append, i) for i, delay in enumerate(delays_ms.tolist())]
        self.entries.update(added)
        return added

    def cancel_many(self, handle: Any, indices: Any) -> object:
        for index in indices.tolist():
            self.entries.remove(handle[index])
        return None

    def close(self) -> None:
        self.entries.clear()
