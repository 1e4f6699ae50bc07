"""The interface of the measured timers."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, ClassVar

Callback = Callable[[Any], object]

BURST = 1000  # operations in one pass of an event loop


class TooSlow(Exception):
    """The machine was too slow for short delays. The next attempt uses longer ones."""


def bursts(count: int) -> Iterator[int]:
    """Split a number of operations into bursts."""
    return (min(BURST, count - start) for start in range(0, count, BURST))


class Implementation:
    """A timer, initially empty. A fitting method of the implementation replaces the method here, without a wrapper.

    No timer expires before `expire`, which runs all of them.
    """

    name: ClassVar[str]
    most: ClassVar[int] = 1_000_000  # the most pending timers in a run of reasonable length
    most_bulk: ClassVar[int] = 100_000  # in one call
    is_quick: ClassVar[bool] = True  # False: operations are slow, so only a few are measured
    leaves_cancelled: ClassVar[bool] = False  # True: cancelled timers stay until there are many of them
    lacks: ClassVar[Mapping[str, str]] = {}  # {missing operation: substitute}
    remarks: ClassVar[Mapping[str, str]] = {}  # {operation: note on its measurement}

    # The life of a timer uses offset + scale * delay.
    delay_offset_s: float = 0.0
    delay_scale: float = 1.0

    def __init__(self, pending: int) -> None:
        """pending: The number of timers to come."""

    def add(self, delay_s: float, callback: Callback, argument: Any) -> Any:
        """Call callback(argument) after a delay, and return a handle."""
        raise NotImplementedError

    def cancel(self, handle: Any) -> object:
        """Cancel a pending timer."""
        raise NotImplementedError

    def pairs(self, count: int, delay_s: float, callback: Callback) -> Iterator[None]:
        """Add and cancel timers in bursts."""
        add, cancel = self.add, self.cancel
        for burst in bursts(count):
            for _ in repeat(None, burst):
                cancel(add(delay_s, callback, -1))
            yield

    def reschedule(self, handle: Any, delay_s: float, callback: Callback, argument: Any) -> Any:
        """Move a pending timer, by default with cancel and add, and return its new handle."""
        self.cancel(handle)
        return self.add(delay_s, callback, argument)

    def drive(self, bursts: Iterable[None]) -> None:
        """Run bursts of operations. An event loop runs each in a pass of its own, as a program does."""
        for _ in bursts:
            pass

    def before_expiry(self) -> None:
        """Set the clock to the last deadline, or wait until then. Not timed."""

    def expire(self) -> None:
        """Run all callbacks in any thread, and return when they have run."""
        raise NotImplementedError

    def add_many(self, delays_ms: Any, fired: list[Any]) -> Any:
        """Add timers with an int64 array of delays. `fired` gets the indices of expired timers, or arrays of them."""
        raise NotImplementedError

    def cancel_many(self, handle: Any, indices: Any) -> object:
        """Cancel the timers of add_many with these indices, by default one by one."""
        for index in indices.tolist():
            self.cancel(handle[index])
        return None

    def close(self) -> None:
        """Drop pending timers and end threads."""


class RealTime(Implementation):
    """A timer whose clock cannot jump. Its delays are long, so no timer expires during the other operations."""

    least_s: ClassVar[float]
    per_timer_s: ClassVar[float]  # longer than all operations of a timer before it expires

    def __init__(self, pending: int) -> None:
        self.delay_offset_s = self.least_s + pending * self.per_timer_s
        self.first_due_s = time.monotonic() + self.delay_offset_s

    def before_expiry(self) -> None:
        if time.monotonic() > self.first_due_s:
            type(self).per_timer_s *= 2
            raise TooSlow(f"{self.name}: the operations took longer than {self.delay_offset_s} s")


SINGLE = ("add", "add + cancel", "reschedule", "cancel", "expire")
BULK = ("bulk add", "bulk cancel", "bulk expire")

NO_BULK = dict.fromkeys(BULK, "one by one, see the operations above")
NO_RESCHEDULE = {"reschedule": "as cancel and add"}  # a note
