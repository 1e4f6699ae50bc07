"""What every timer is put behind, so that one loop measures them all."""

import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

Callback = Callable[[Any], object]


class TooSlow(Exception):
    """The machine was too slow for delays that had to be short. The next try has longer ones."""


class Implementation:
    """A timer that is empty when it is made. Where an implementation's own method fits, it is put in place of the one
    here as it is, so that no call of ours is measured with it.

    flowing=False: time stands still while timers are added and cancelled, and `expire` jumps to where all are due.
    flowing=True: for the workload, in which callbacks add timers; `flow` lets time pass.
    """

    name: ClassVar[str]
    most: ClassVar[int] = 1_000_000  # pending timers that it can bear in a run of reasonable length
    most_called: ClassVar[int] = 100_000  # of these, to be called back in Python
    most_bulk: ClassVar[int] = 100_000  # in one call
    most_connections: ClassVar[int] = 2_000  # of the workload
    is_quick: ClassVar[bool] = True  # False: an operation takes so long that few are measured
    lacks: ClassVar[Mapping[str, str]] = {}  # operation that it has not: where to look instead
    remarks: ClassVar[Mapping[str, str]] = {}  # operation: how it was measured, where that needs saying
    expiry_clock: ClassVar[Callable[[], float]] = time.perf_counter
    flow_clock: ClassVar[Callable[[], float]] = time.perf_counter

    # Where time cannot be jumped over, delays are cut short: to offset + scale * delay. Callers do that.
    delay_offset_s: float = 0.0
    delay_scale: float = 1.0

    def __init__(self, pending: int, *, flowing: bool = False) -> None:
        """pending: how many timers there will be."""

    def add(self, delay_s: float, callback: Callback, argument: Any) -> Any:
        """Has callback(argument) called after a delay. Returns a handle."""
        raise NotImplementedError

    def cancel(self, handle: Any) -> object:
        """Keeps it from running."""
        raise NotImplementedError

    def reschedule(self, handle: Any, delay_s: float, callback: Callback, argument: Any) -> Any:
        """Moves a pending timer. Where there is no such thing, as here: cancel and add. Returns the handle of now."""
        self.cancel(handle)
        return self.add(delay_s, callback, argument)

    def before_expiry(self) -> None:
        """Sets the clock to where all are due, or waits until then. Not timed."""

    def expire(self) -> None:
        """Runs everything, in this thread or not, and comes back when it has run."""
        raise NotImplementedError

    def flow(self, is_done: Callable[[], bool]) -> None:
        """Lets time pass, virtual if it can, until is_done()."""
        raise NotImplementedError

    def add_many(self, delays_ms: Any, fired: list[Any]) -> Any:
        """Adds a timer for each of an int64 array of delays, known by its index. What falls due goes into `fired`,
        indices or arrays of them."""
        raise NotImplementedError

    def cancel_many(self, handle: Any, indices: Any) -> object:
        """Cancels those of add_many with these indices."""
        raise NotImplementedError

    def close(self) -> None:
        """Drops what is pending, ends threads."""


SINGLE = ("add", "add + cancel", "reschedule", "cancel", "expire", "expire, Python callback")
BULK = ("bulk add", "bulk cancel", "bulk expire")

NO_BULK = dict.fromkeys(BULK, "one by one, see the operations above")
NO_RESCHEDULE = {"reschedule": "as cancel and add"}  # a remark
