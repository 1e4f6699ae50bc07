"""sortedcontainers: a sorted list, from which a cancel removes the entry."""

from itertools import count
from time import monotonic
from typing import Any

from sortedcontainers import SortedList

from implementations.base import NO_BULK, NO_RESCHEDULE, Callback, Implementation


class Sorted(Implementation):
    """Entries are tuples (when, number, callback, argument) in a SortedList."""

    name = "sortedcontainers"
    lacks = {name: why for name, why in NO_BULK.items() if name != "bulk add"}
    remarks = NO_RESCHEDULE | {"bulk add": "SortedList.update"}

    def __init__(self, pending: int) -> None:
        self.entries = SortedList()
        self.numbers = count()
        self.cancel = self.entries.remove  # type: ignore[method-assign]

    def add(self, delay_s: float, callback: Callback, argument: Any) -> tuple[Any, ...]:
        entry = (monotonic() + delay_s, next(self.numbers), callback, argument)
        self.entries.add(entry)
        return entry

    def expire(self) -> None:
        entries = self.entries
        while entries:
            _, _, callback, argument = entries.pop(0)
            callback(argument)

    def add_many(self, delays_ms: Any, fired: list[Any]) -> Any:
        now, append = monotonic(), fired.append
        added = [(now + delay / 1000, next(self.numbers), append, i) for i, delay in enumerate(delays_ms.tolist())]
        self.entries.update(added)
        return added

    def close(self) -> None:
        self.entries.clear()
