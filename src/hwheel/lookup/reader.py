"""Answers about held messages from the lookup index of a checkpoint, without Spark."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hwheel.lookup.segments import TICKS, Segment, hash_of, open_segments
from hwheel.lookup.texts import bytes_of, shown, shown_as
from hwheel_core import HwheelError

INDEX = "index"  # in a checkpoint of `hwheel deliver`
QUERY = "messages"
TIME = re.compile(r'"batchTimestampMs":(\d+)')
HOUR_MS = 3_600_000


class NoIndexError(HwheelError):
    """The checkpoint has no lookup index, or no committed batch."""


@dataclass(frozen=True)
class HeldIndex:
    """The index as of a committed batch.

    Args:
        clock_ms: The time of the batch.
    """

    segments: list[Segment]
    clock_ms: int

    @classmethod
    def open(cls, checkpoint: Path) -> "HeldIndex":
        """Open the index of a checkpoint, while the job may be running.

        Raises:
            NoIndexError: The checkpoint has no index, or no completed batch.
            OSError, ValueError: A file cannot be read.
        """
        if not (checkpoint / INDEX).is_dir():
            raise NoIndexError(f"{checkpoint} has no index")
        # Read the segments before the number of the batch. In the other order, the job could merge segments of a later
        # batch into those of this batch in between.
        segments = open_segments(checkpoint / INDEX)
        query = checkpoint / QUERY
        commits = query / "commits"
        names = os.listdir(commits) if commits.is_dir() else []
        committed = max((int(name) for name in names if name.isdecimal()), default=-1)
        found = TIME.search((query / "offsets" / str(committed)).read_text()) if committed >= 0 else None
        if found is None:
            raise NoIndexError(f"{checkpoint} has no completed batch")
        return cls([segment for segment in segments if segment.batch_id <= committed], int(found[1]))

    def matching_rows(
        self, id: str | None, key: str | None, before_ms: int | None = None, most: int | None = None
    ) -> list[dict[str, object]]:
        """Return the held rows that match all given filters, as hwheel.spark.deliver.pending.matching_rows() does."""
        asked = {name: text for name, text in (("id", id), ("key", key)) if text is not None}
        column = next(iter(asked))
        wanted = {name: {bytes_of(text), shown_as(text)} for name, text in asked.items()}
        wanted_hashes = {*map(hash_of, wanted[column])}
        found = (row for segment in self.segments for hash in wanted_hashes for row in segment.find(column, hash))
        rows = [
            row
            for row in found
            if row["tick"] > self.clock_ms and all(row[name] in values for name, values in wanted.items())
        ]
        return [*shown_rows(without_replaced(rows), before_ms)][:most]

    def rows_by_hour(self, hours: int) -> tuple[dict[int, int], int]:
        """Return the number of held rows by the start of each hour in epoch milliseconds, and of later rows.

        Args:
            hours: The number of hours to count. The first hour contains the time of the batch.
        """
        first_ms = self.clock_ms - self.clock_ms % HOUR_MS
        starts = np.arange(first_ms, first_ms + (hours + 1) * HOUR_MS, HOUR_MS)
        edges = starts.copy()
        edges[0] = self.clock_ms + 1
        below = np.zeros(len(edges), np.int64)
        total = 0
        for segment in self.segments:
            below += np.searchsorted(segment.numbers(TICKS), edges)
            total += segment.batch.num_rows
        counts = [int(end - begin) for begin, end in pairwise(below)]
        return dict(zip(starts[:-1].tolist(), counts, strict=True)), total - int(below[-1])


Row = dict[str, Any]


def groups(rows: Iterable[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """Group rows by id, key, and tick."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault((row["id"], row["key"], row["tick"]), []).append(row)
    return found


def without_replaced(rows: Iterable[Row]) -> list[Row]:
    """Remove messages that a later message with the same id replaces, and the cancels before it."""
    left: list[Row] = []
    for together in groups(rows).values():
        replacing = max((row["sequence"] for row in together if row["by_id"] and not row["cancelled"]), default=-1)
        cancel = max((row["sequence"] for row in together if row["cancelled"]), default=-1)
        is_final = replacing >= 0 and replacing >= cancel
        left += [row for row in together if not is_final or row["sequence"] == replacing]
    return left


def shown_rows(rows: list[Row], before_ms: int | None) -> Iterable[dict[str, object]]:
    """Yield rows in order, as the command line shows them. ``before_ms``: only groups that are first due earlier."""
    first = {names: min(row["due"] for row in together) for names, together in groups(rows).items()}

    def order(row: Row) -> tuple[Any, ...]:
        when = first[row["id"], row["key"], row["tick"]]
        return when, row["id"], row["key"] is not None, row["key"] or b"", row["sequence"]

    payload = [name for name in (rows[0] if rows else {}) if re.fullmatch(r"p\d+", name)]
    for row in sorted(rows, key=order):
        if before_ms is None or order(row)[0] < before_ms:
            yield {
                "id": shown(row["id"]),
                "key": shown(row["key"]),
                "due": row["due"],
                "tick": row["tick"],
                "payload": [row[name] for name in payload],
                "cancelled": row["cancelled"],
            }
