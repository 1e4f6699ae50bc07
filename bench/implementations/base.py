"""The interface of the measured timers."""

import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

Callback = Callable[[Any], object]


class TooSlow(Exception):
    """The machine was too slow for short delays. The next attempt uses longer ones."""


class Implementation:
    """A timer, initially empty. A fitting method of the implementation replaces the method here, without a wrapper.

    flowing=False: Time stops during adds and cancels, and `expire` jumps to the last deadline.
    flowing=True: For the workload, where callbacks add timers; `flow` lets time pass.
    """

    name: ClassVar[str]
    most: ClassVar[int] = 1_000_000  # the most pending timers in a run of reasonable length
    most_called: ClassVar[int] = 100_000  # of these with a callback in Python
    most_bulk: ClassVar[int] = 100_000  # in one call
    most_connections: ClassVar[int] = 2_000  # of the workload
    is_quick: ClassVar[bool] = True  # False: operations are so slow that few are measured
    lacks: ClassVar[Mapping[str, str]] = {}  # {missing operation: substitute}
    remarks: ClassVar[Mapping[str, str]] = {}  # {operation: note on its measurement}
    expiry_clock: ClassVar[Callable[[], float]] = time.perf_counter
    flow_clock: ClassVar[Callable[[], float]] = time.perf_counter

    # If time cannot jump, callers shorten delays to offset + scale * delay.
    delay_offset_s: float = 0.0
    delay_scale: float = 1.0

    def __init__(self, pending: int, *, flowing: bool = False) -> None:
        """pending: The number of timers to come."""

    def add(self, delay_s: float, callback: Callback, argument: Any) -> Any:
        """Call callback(argument) after a delay, and return a handle."""
        raise NotImplementedError

    def cancel(self, handle: Any) -> object:
        """Cancel a pending timer."""
        raise NotImplementedError

    def reschedule(self, handle: Any, delay_s: float, callback: Callback, argument: Any) -> Any:
        """Move a pending timer, by default with cancel and add, and return its new handle."""
        self.cancel(handle)
        return self.add(delay_s, callback, argument)

    def before_expiry(self) -> None:
        """Set the clock to the last deadline, or wait until then. Not timed."""

    def expire(self) -> None:
        """Run all callbacks in any thread, and return when they have run."""
        raise NotImplementedError

    def flow(self, is_done: Callable[[], bool]) -> None:
        """Let time pass, virtual if possible, until is_done()."""
        raise NotImplementedError

    def add_many(self, delays_ms: Any, fired: list[Any]) -> Any:
        """Add timers with an int64 array of delays. `fired` gets the indices of expired timers, or arrays of them."""
        raise NotImplementedError

    def cancel_many(self, handle: Any, indices: Any) -> object:
        """Cancel the timers of add_many with these indices."""
        raise NotImplementedError

    def close(self) -> None:
        """Drop pending timers and end threads."""


SINGLE = ("add", "add + cancel", "reschedule", "cancel", "expire", "expire, Python callback")
BULK = ("bulk add", "bulk cancel", "bulk expire")

NO_BULK = dict.fromkeys(BULK, "one by one, see the operations above")
NO_RESCHEDULE = {"reschedule": "as cancel and add"}  # a note
