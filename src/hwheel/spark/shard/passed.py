"""Rows of a batch whose tick is over, kept by slices of ticks until it is their turn.

They came late, or lay in a coarse bucket. A slice is one tick, or as many as make some dozens of slices of all: a
backlog of years makes no more of them than one of minutes.
"""

import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import arrow_array
from hwheel.spark.shard.spill import Spill
from hwheel_core import group

SLICES = 64


class Passed:
    """The slices, by number. The first one has no beginning: what is older than the first rows were is in it."""

    def __init__(self, spill: Spill, tick_ms: int, now_ms: int) -> None:
        self.spill = spill
        self.tick_ms, self.now_ms = tick_ms, now_ms
        self.first_ms = self.width_ms = 0

    def append(self, rows: pa.Table, ticks: pa.Array) -> None:
        """Adds rows with their ticks, all of them over at now_ms."""
        if not self.spill.rows:
            self.first_ms = pc.min(ticks).as_py()
            span = (self.now_ms - self.first_ms) // self.tick_ms
            self.width_ms = (span // SLICES + 1) * self.tick_ms
        numbers = pc.divide(pc.subtract(pc.max_element_wise(ticks, self.first_ms), self.first_ms), self.width_ms)
        order, starts = group(numbers)
        if len(starts) > 2:
            rows = rows.take(arrow_array(order))
        for start, end in zip(starts[:-1], starts[1:], strict=True):
            self.spill.append(numbers[order[start]].as_py(), rows.slice(start, end - start))

    def slice_of(self, tick_ms: int) -> int | None:
        """The number of the slice in which a tick lies, if it has any rows."""
        if not self.spill.rows:
            return None
        number = max(tick_ms - self.first_ms, 0) // self.width_ms
        return number if number in self.spill.rows else None

    def begin_ms(self, number: int) -> int:
        """The first tick of a slice."""
        return self.first_ms + number * self.width_ms

    def numbers(self, until_ms: int) -> list[int]:
        """The slices that end with a tick up to until_ms, or now."""
        return [
            number
            for number in self.spill.rows
            if min(self.begin_ms(number + 1) - self.tick_ms, self.now_ms) <= until_ms
        ]
