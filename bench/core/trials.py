"""The operations as steps of a life: an implementation is filled, used, and emptied.

All implementations get the same seeded delays, cancel and move the same timers, and must fire the same timers.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from implementations.base import BURST, Implementation

RANGE_MS = 100_000
PAIR_DELAY_S = 30.0
PAIRS_TO_CLEAN = 2.5  # per pending timer: enough that cancelled timers are removed twice
MOST_PAIRS = 100_000  # of implementations that remove a timer when it is cancelled
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


@lru_cache(maxsize=2)
def inputs_of(pending: int) -> Inputs:
    """Return the plan, which is the same for each implementation."""
    chance = np.random.default_rng(SEED)
    delays_ms = chance.integers(1, RANGE_MS, pending, endpoint=True)
    tenth = min(max(pending // 10, 1), 100_000)
    chosen = chance.permutation(pending)[: 2 * tenth].tolist()
    moved_to_ms = chance.integers(1, RANGE_MS, tenth, endpoint=True)
    return Inputs(
        pending,
        delays_ms,
        (delays_ms / 1000).tolist(),
        list(range(pending)),
        chosen[:tenth],
        chosen[tenth:],
        (moved_to_ms / 1000).tolist(),
    )


Steps = tuple[tuple[str | None, str], ...]  # operation, method
Bursts = Iterator[None] | None


class Life:
    """Steps in order. A step is an operation, or None if it only prepares the next one."""

    steps: ClassVar[Steps]

    def __init__(self, make: type[Implementation], inputs: Inputs) -> None:
        self.inputs = inputs
        self.timer = make(inputs.pending)
        self.fired: list[Any] = []
        self.counts: dict[str, int] = {}

    def run(self) -> dict[str, float]:
        """Run all steps, and return the seconds of processor time of each operation."""
        seconds = {}
        for operation, method in self.steps:
            begin = time.process_time()
            bursts = getattr(self, method)()
            if bursts is not None:
                self.timer.drive(bursts)
            if operation is not None:
                seconds[operation] = time.process_time() - begin
        return seconds

    def before_expiry(self) -> None:
        self.timer.before_expiry()

    def expire(self) -> None:
        self.timer.expire()

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
        ("add + cancel", "pairs"),
        ("reschedule", "reschedule"),
        ("cancel", "cancel"),
        (None, "before_expiry"),
        ("expire", "expire"),
    )

    def __init__(self, make: type[Implementation], inputs: Inputs) -> None:
        super().__init__(make, inputs)
        self.callback: Callable[[Any], object] = self.fired.append
        self.delays_s = self._delays_s(inputs.delays_s)
        self.moves = [*zip(inputs.moved, self._delays_s(inputs.moved_to_s), strict=True)]
        [self.pair_delay_s] = self._delays_s([PAIR_DELAY_S])
        tenth = len(inputs.cancelled)
        pairs = PAIRS_TO_CLEAN * inputs.pending if make.leaves_cancelled else min(inputs.pending, MOST_PAIRS)
        self.counts = {
            "add": inputs.pending,
            "add + cancel": max(BURST, round(pairs)),
            "reschedule": tenth,
            "cancel": tenth,
            "expire": inputs.pending - tenth,
        }

    def _delays_s(self, delays_s: list[float]) -> list[float]:
        offset, scale = self.timer.delay_offset_s, self.timer.delay_scale
        return delays_s if (offset, scale) == (0, 1) else [offset + scale * delay for delay in delays_s]

    def add(self) -> None:
        add, callback = self.timer.add, self.callback
        self.handles = [add(delay, callback, i) for delay, i in zip(self.delays_s, self.inputs.indices, strict=True)]

    def pairs(self) -> Bursts:
        return self.timer.pairs(self.counts["add + cancel"], self.pair_delay_s, self.callback)

    def reschedule(self) -> Bursts:
        reschedule, handles, callback = self.timer.reschedule, self.handles, self.callback
        for moves in in_bursts(self.moves):
            for i, delay in moves:
                handles[i] = reschedule(handles[i], delay, callback, i)
            yield

    def cancel(self) -> Bursts:
        cancel, handles = self.timer.cancel, self.handles
        for indices in in_bursts(self.inputs.cancelled):
            for i in indices:
                cancel(handles[i])
            yield


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


def in_bursts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Split items into bursts."""
    return (items[start : start + BURST] for start in range(0, len(items), BURST))


@contextmanager
def garbage_collector(*, on: bool) -> Iterator[None]:
    """Collect all garbage, and turn the automatic collector on or off for a while."""
    gc.collect()
    if not on:
        gc.disable()
    try:
        yield
    finally:
        gc.enable()
