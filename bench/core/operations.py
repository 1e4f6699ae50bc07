"""The operations as steps of a life: an implementation is filled, used, and emptied.

All implementations get the same seeded delays, cancel and move the same timers, and must fire the same timers.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import repeat
from typing import Any, ClassVar, NamedTuple

import numpy as np

from implementations.base import Implementation

RANGE_MS = 100_000
PAIR_DELAY_S = 30.0
SEED = 20


class WrongWork(AssertionError):
    """An implementation fired the wrong timers."""


class Inputs(NamedTuple):
    """The random choices for `pending` timers. Immutable."""

    pending: int
    delays_ms: Any  # int64
    delays_s: list[float]
    indices: list[int]
    cancelled: list[int]  # a tenth of the timers, in random order
    moved: list[int]  # another tenth
    moved_to_s: list[float]

    @property
    def pairs(self) -> int:
        """The number of pairs of add and cancel."""
        return len(self.cancelled)


@lru_cache(maxsize=2)
def inputs_of(pending: int) -> Inputs:
    """Return the plan, which is the same for each implementation."""
    chance = np.random.default_rng(SEED)
    delays_ms = chance.integers(1, RANGE_MS, pending, endpoint=True)
    tenth = min(max(pending // 10, 1), 100_000)
    chosen = chance.permutation(pending)[: 2 * tenth].tolist()
    moved_to = chance.integers(1, RANGE_MS, tenth, endpoint=True)
    return Inputs(
        pending,
        delays_ms,
        (delays_ms / 1000).tolist(),
        list(range(pending)),
        chosen[:tenth],
        chosen[tenth:],
        (moved_to / 1000).tolist(),
    )


Steps = tuple[tuple[str | None, str], ...]  # operation, method


class Life:
    """Steps in order. A step is an operation, or None if it only prepares the next one."""

    steps: ClassVar[Steps]

    def __init__(self, make: type[Implementation], inputs: Inputs) -> None:
        self.inputs = inputs
        self.timer = make(inputs.pending)
        self.fired: list[Any] = []
        self.counts: dict[str, int] = {}

    def clock(self, operation: str) -> Callable[[], float]:
        """Return the clock for an operation."""
        return self.timer.expiry_clock if operation.startswith("expire") else Implementation.expiry_clock  # type: ignore[misc]

    def expected(self) -> Any:
        """Return the timers that must fire, ascending."""
        return np.delete(np.arange(self.inputs.pending), self.inputs.cancelled)

    def check(self) -> int:
        """Compare the fired timers with the plan, and return their sum.

        Raises:
            WrongWork: The timers differ.
        """
        fired = np.sort(self.fired_indices())
        if not np.array_equal(fired, self.expected()):
            raise WrongWork(f"{self.timer.name} fired {len(fired):,} timers, not the {len(self.expected()):,} expected")
        return int(fired.sum())

    def fired_indices(self) -> Any:
        """Return the fired timers in order."""
        return np.array(self.fired, dtype=np.int64)

    def close(self) -> None:
        """Close the implementation."""
        self.timer.close()


class SingleLife(Life):
    """Single timers with a compiled callback, list.append."""

    steps: ClassVar[Steps] = (
        ("add", "add"),
        ("add + cancel", "pair"),
        ("reschedule", "reschedule"),
        ("cancel", "cancel"),
        (None, "before_expiry"),
        ("expire", "expire"),
    )

    def __init__(self, make: type[Implementation], inputs: Inputs) -> None:
        super().__init__(make, inputs)
        self.callback: Callable[[Any], object] = self.fired.append
        self.delays_s = self._cut(inputs.delays_s)
        self.moved_to_s = self._cut(inputs.moved_to_s)
        self.pair_delay_s = self._cut([PAIR_DELAY_S])[0]
        self.counts = {
            "add": inputs.pending,
            "add + cancel": inputs.pairs,
            "reschedule": len(inputs.moved),
            "cancel": len(inputs.cancelled),
            "expire": inputs.pending - len(inputs.cancelled),
        }

    def _cut(self, delays_s: list[float]) -> list[float]:
        offset, scale = self.timer.delay_offset_s, self.timer.delay_scale
        return delays_s if (offset, scale) == (0, 1) else [offset + scale * delay for delay in delays_s]

    def add(self) -> None:
        add, callback = self.timer.add, self.callback
        self.handles = [add(delay, callback, i) for delay, i in zip(self.delays_s, self.inputs.indices, strict=True)]

    def pair(self) -> None:
        add, cancel, callback, delay = self.timer.add, self.timer.cancel, self.callback, self.pair_delay_s
        for _ in repeat(None, self.inputs.pairs):
            cancel(add(delay, callback, -1))

    def reschedule(self) -> None:
        reschedule, handles, callback = self.timer.reschedule, self.handles, self.callback
        for i, delay in zip(self.inputs.moved, self.moved_to_s, strict=True):
            handles[i] = reschedule(handles[i], delay, callback, i)

    def cancel(self) -> None:
        cancel, handles = self.timer.cancel, self.handles
        for i in self.inputs.cancelled:
            cancel(handles[i])

    def before_expiry(self) -> None:
        self.timer.before_expiry()

    def expire(self) -> None:
        self.timer.expire()


class CalledLife(SingleLife):
    """Single timers with a callback in Python."""

    steps = ((None, "add"), (None, "before_expiry"), ("expire, Python callback", "expire"))

    def __init__(self, make: type[Implementation], inputs: Inputs) -> None:
        super().__init__(make, inputs)
        self.callback = noting(self.fired)
        self.counts = {"expire, Python callback": inputs.pending}

    def expected(self) -> Any:
        return np.arange(self.inputs.pending)


class BulkLife(Life):
    """All timers in one call, cancelled in random order; and again, to expire."""

    steps = (("bulk add", "add"), ("bulk cancel", "cancel"), (None, "add_for_expiry"), ("bulk expire", "expire"))

    def __init__(self, make: type[Implementation], inputs: Inputs) -> None:
        super().__init__(make, inputs)
        self.in_random_order = np.random.default_rng(SEED).permutation(inputs.pending)
        self.counts = dict.fromkeys(("bulk add", "bulk cancel", "bulk expire"), inputs.pending)

    def add(self) -> None:
        self.handle = self.timer.add_many(self.inputs.delays_ms, self.fired)

    def cancel(self) -> None:
        self.timer.cancel_many(self.handle, self.in_random_order)

    def add_for_expiry(self) -> None:
        self.add()
        self.timer.before_expiry()

    def expire(self) -> None:
        self.timer.expire()

    def expected(self) -> Any:
        return np.arange(self.inputs.pending)

    def fired_indices(self) -> Any:
        return np.concatenate([np.atleast_1d(np.asarray(fired, dtype=np.int64)) for fired in self.fired])

    def check(self) -> int:
        """Check the timers, and their order: by time, and by add within a tick."""
        in_order = np.argsort(self.inputs.delays_ms, kind="stable")
        if not np.array_equal(self.fired_indices(), in_order):
            raise WrongWork(f"{self.timer.name} fired out of order")
        return super().check()


LIVES: tuple[type[Life], ...] = (SingleLife, CalledLife, BulkLife)


def noting(fired: list[Any]) -> Callable[[Any], object]:
    """Return a callback in Python that records its argument."""
    append = fired.append

    def on_timeout(index: Any) -> None:
        append(index)

    return on_timeout


def lives_of(make: type[Implementation], pending: int) -> Iterator[type[Life]]:
    """Return the lives that an implementation supports with so many timers."""
    for life in LIVES:
        most = {CalledLife: make.most_called, BulkLife: make.most_bulk}.get(life, make.most)
        offers = any(operation is not None and operation not in make.lacks for operation, _ in life.steps)
        if pending <= most and offers:
            yield life
