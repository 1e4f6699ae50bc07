"""The lookup index of a running delivery: its creation from the state, and the thread that keeps it small."""

import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from hwheel.lookup.reader import INDEX
from hwheel.lookup.segments import open_segments, segment_name, tidy, write_segment
from hwheel.spark.arrow import gather
from hwheel.spark.deliver.checkpoint import MESSAGES, batch_time_ms, last_batch
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.failures import FROM_JAVA
from hwheel.spark.deliver.pending import Decoder, indexes, state_variable
from hwheel.spark.deliver.settings import CheckpointOptionsError
from hwheel.spark.session.conf import INDEX_DIRECTORY
from hwheel.spark.shard.arrivals import hashed
from hwheel.spark.shard.neutral import payload_names

BUILDING = ".index-building"
PIECE_ROWS = 1_000_000  # of a segment that is built from the state
PIECE_BYTES = 64 * 1024 * 1024
TIDY_EVERY_S = 2.0
BUILT_TIER = 1  # of a segment that is built from the state


@dataclass(frozen=True)
class SegmentWriter:
    """Writes the held rows in chunks of buckets as segments, inside mapInArrow. Yields their numbers."""

    decoder: Decoder
    directory: str
    batch_id: int
    clock_ms: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in gather(self.decoder(batches), PIECE_ROWS, PIECE_BYTES):
            held = rows.filter(pc.greater(rows.column("tick"), self.clock_ms))
            if held.num_rows:
                name = segment_name(BUILT_TIER, self.batch_id, uuid4().hex[:12])
                write_segment(Path(self.directory), name, hashed(held))
            yield pa.RecordBatch.from_pydict({"rows": [held.num_rows]})


def set_up_index(checkpoint: Directory, wanted: bool | None) -> Path | None:
    """Create, keep, or remove the index of a checkpoint, and let the query write it; return its directory.

    The queries must not be running.

    Args:
        wanted: True: create or keep the index. False: remove it. None: keep it if it exists.

    Raises:
        CheckpointOptionsError: The checkpoint is not in a local directory.
    """
    local = checkpoint.local_path
    directory = None if local is None else Path(local) / INDEX
    if wanted is None:
        wanted = directory is not None and directory.is_dir()
    checkpoint.spark.conf.unset(INDEX_DIRECTORY)
    if not wanted:
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)
        return None
    if directory is None:
        raise CheckpointOptionsError("--index needs a checkpoint in a local or mounted directory")
    committed = last_batch(checkpoint.child_directory(MESSAGES), "commits")
    if not directory.is_dir() or not continues(directory, committed):
        build(checkpoint, directory, committed)
    checkpoint.spark.conf.set(INDEX_DIRECTORY, str(directory))
    return directory


def continues(directory: Path, committed: int) -> bool:
    """Return True if an index fits the last committed batch. Remove the segments of an interrupted batch."""
    try:
        segments = open_segments(directory)
    except (OSError, ValueError):  # damaged
        return False
    later = [segment for segment in segments if segment.batch_id > committed]
    # Only the segments of one interrupted batch can be later, and they are not merged. Other ones show that the state
    # was restored from an older copy.
    if any(segment.tier > 0 or segment.batch_id > committed + 1 for segment in later):
        return False
    for segment in later:
        (directory / segment.name).unlink()
    return True


def build(checkpoint: Directory, directory: Path, committed: int) -> None:
    """Create the index from the state of the last committed batch."""
    building = directory.with_name(BUILDING)
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    query = checkpoint.child_directory(MESSAGES)
    found = indexes(query.spark, query.path) if committed >= 0 else []
    if found:
        names, schema = found[0].names, found[0].arrow_schema
        decoder = Decoder(bytes(schema.serialize()), found[0].placement.tick_ms, names, payload_names(schema, names))
        writer = SegmentWriter(decoder, str(building), committed, batch_time_ms(query, committed) or 0)
        chunks = state_variable(query.spark, query.path, "buckets").select(F.col("user_map_value.rows").alias("rows"))
        chunks.mapInArrow(writer, "rows bigint").agg(F.sum("rows")).collect()
    shutil.rmtree(directory, ignore_errors=True)
    building.rename(directory)


@dataclass
class IndexKeeper:
    """A thread that merges segments and deletes those whose rows were delivered."""

    query: Directory
    directory: Path
    stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self.run, name="hwheel-index", daemon=True)
        self.thread.start()

    def run(self) -> None:
        while not self.stopped.wait(TIDY_EVERY_S):
            with suppress(OSError, ValueError, *FROM_JAVA):  # the next round tries again
                while not self.stopped.is_set() and self.tidy():
                    pass

    def tidy(self) -> bool:
        committed = last_batch(self.query, "commits")
        clock_ms = batch_time_ms(self.query, committed)
        return clock_ms is not None and tidy(self.directory, committed, clock_ms)

    def stop(self) -> None:
        self.stopped.set()
        self.thread.join()
