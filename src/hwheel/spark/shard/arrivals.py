"""The part of the lookup index that a shard writes: the rows that arrive in a batch."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from hwheel.lookup.segments import hashes, segment_name, write_segment
from hwheel.spark.shard.neutral import neutral_rows, payload_names
from hwheel.spark.shard.settings import WheelSettings

BATCH_ID = "streaming.sql.batchId"  # Spark sets it for the tasks of a batch

ArrivalWriter = Callable[[pa.Table, int], None]


@dataclass
class IndexedArrivals:
    """Writes the arrived rows of one shard in one batch to the lookup index, except those that are due.

    A repeated batch has the same rows, perhaps divided differently, and replaces the files of the earlier attempt.
    """

    settings: WheelSettings
    directory: Path
    label: str
    batch_id: int
    parts: int = field(default=0, init=False)

    def __call__(self, rows: pa.Table, now_ms: int) -> None:
        if self.parts == 0:
            for file in self.directory.glob(segment_name(0, self.batch_id, f"{self.label}-*")):
                file.unlink(missing_ok=True)
        names, tick_ms = self.settings.names, self.settings.placement.tick_ms
        found = neutral_rows(rows, names, tick_ms, payload_names(rows.schema, names))
        found = found.filter(pc.greater(found.column("tick"), now_ms))
        if found.num_rows:
            write_segment(self.directory, segment_name(0, self.batch_id, f"{self.label}-{self.parts}"), hashed(found))
            self.parts += 1


def arrival_writer(settings: WheelSettings, label: int) -> ArrivalWriter | None:
    """Return the writer for a shard in the current task, or None if the query writes no index."""
    if settings.index_directory is None:
        return None
    context = TaskContext.get()
    batch_id = context.getLocalProperty(BATCH_ID) if context else None
    if batch_id is None:
        raise RuntimeError(f"Spark has no {BATCH_ID} for this task, which the index of held messages needs")
    return IndexedArrivals(settings, Path(settings.index_directory), str(label), int(batch_id))


def hashed(rows: pa.Table) -> pa.Table:
    """Return rows with the hashes of their keys and ids, as write_segment() needs them."""
    for name in ("key", "id"):
        rows = rows.append_column(f"{name}_hash", pa.array(hashes(rows.column(name))))
    return rows
