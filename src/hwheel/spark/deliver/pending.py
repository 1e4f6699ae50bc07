"""What a checkpoint holds, read from its state store beside the running query."""

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from hwheel.spark.arrow import from_chunk
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.message import BY_ID, SEQUENCE, TOMBSTONE, due_ms, expirations
from hwheel.spark.shard.settings import ColumnNames
from hwheel.spark.shard.state import ShardIndex

DECODED = "id binary, key binary, due bigint, tick bigint, cancelled boolean, by_id boolean, sequence bigint"
IDENTITY = ("id", "key", "tick")
MINUTE_MS = 60_000
EDGES_MS = {
    "due already": 0,
    "within a minute": MINUTE_MS,
    "within 10 minutes": 10 * MINUTE_MS,
    "within an hour": 60 * MINUTE_MS,
    "within 6 hours": 360 * MINUTE_MS,
    "within a day": 1440 * MINUTE_MS,
    "within a week": 10_080 * MINUTE_MS,
    "within 30 days": 43_200 * MINUTE_MS,
    "within a year": 525_600 * MINUTE_MS,
}
LATER = "later"


@dataclass(frozen=True)
class Decoder:
    """Chunks of buckets to rows, inside mapInArrow: ids and keys as bytes, which tell apart what is not equal.
    `payload`: columns of the message to add, as text, called p0, p1, ...
    """

    schema: bytes
    tick_ms: int
    names: ColumnNames
    payload: tuple[str, ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        for batch in batches:
            for chunk in batch.column("rows"):
                rows = from_chunk(chunk.as_buffer(), schema)
                due = rows.column(self.names.due)
                columns = [
                    as_bytes(rows.column(self.names.id)),
                    as_bytes(rows.column(self.names.key)),
                    due_ms(due),
                    expirations(due, self.tick_ms),
                    rows.column(TOMBSTONE),
                    rows.column(BY_ID) if BY_ID in schema.names else pa.repeat(pa.scalar(False), rows.num_rows),
                    rows.column(SEQUENCE),
                ]
                names = ["id", "key", "due", "tick", "cancelled", "by_id", "sequence"]
                for number, name in enumerate(self.payload):
                    texts = [shown(value) for value in rows.column(name).to_pylist()]
                    columns.append(pa.array(texts, pa.string()))
                    names.append(f"p{number}")
                yield pa.RecordBatch.from_arrays(columns, names=names)


def as_bytes(column: pa.Array) -> pa.Array:
    """Ids or keys as bytes: binary as it is, and text and numbers as text in UTF-8."""
    return column if pa.types.is_binary(column.type) else column.cast(pa.string()).cast(pa.binary())


def shown(value: object) -> str | None:
    """A value as text; of bytes, what they are if they are text."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return None if value is None else str(value)


links: dict[str, TemporaryDirectory[str]] = {}  # to checkpoints, by their paths; they go when the process ends


def readable(spark: SparkSession, checkpoint: str) -> str:
    """The path by which Spark's reader of states finds a checkpoint. It takes the URL for a path, %20 and all: where
    that differs, the checkpoint is found by a link to it, if it is in a local directory.
    """
    directory = Directory(spark, checkpoint)
    place = directory.local_path
    if place is None or directory.encoded_url == directory.url:
        return checkpoint
    if place not in links:
        links[place] = TemporaryDirectory(prefix="hwheel-")
        os.symlink(place, f"{links[place].name}/checkpoint")
    return f"{links[place].name}/checkpoint"


def state(spark: SparkSession, checkpoint: str, variable: str) -> DataFrame:
    """A state variable of the query, as of its last committed batch."""
    _ = spark.streams  # starts the coordinator of state stores, which Spark 4.1 needs here and does not start itself
    return spark.read.format("statestore").option("stateVarName", variable).load(readable(spark, checkpoint))


def indexes(spark: SparkSession, checkpoint: str) -> list[ShardIndex]:
    """The index of each shard that has had a message."""
    return [ShardIndex.from_json(row.json) for row in state(spark, checkpoint, "index").select("value.json").collect()]


def rows_held(spark: SparkSession, checkpoint: str) -> int:
    """How many rows lie in buckets: messages, duplicates and cancels that have not met yet. Reads no bucket."""
    return sum(entry.rows for index in indexes(spark, checkpoint) for entry in index.buckets.values())


def rows_by_due(spark: SparkSession, checkpoint: str, now_ms: int) -> dict[str, int]:
    """The same rows by how far away they are at the least: each counts as due when its bucket is. Reads no bucket."""
    counts = dict.fromkeys([*EDGES_MS, LATER], 0)
    edges = [*EDGES_MS.values()]
    for index in indexes(spark, checkpoint):
        for (_, expiration_ms), entry in index.buckets.items():
            counts[[*counts][bisect_left(edges, expiration_ms - now_ms)]] += entry.rows
    return counts


def records(spark: SparkSession, checkpoint: str, payload: tuple[str, ...] = ()) -> DataFrame | None:
    """All rows in buckets; None if no shard has had a message yet."""
    found = indexes(spark, checkpoint)
    if not found:
        return None
    index = found[0]  # in what is asked for here, all shards have the same
    decoder = Decoder(bytes(index.arrow_schema.serialize()), index.placement.tick_ms, index.names, payload)
    chunks = state(spark, checkpoint, "buckets").select(F.col("user_map_value.rows").alias("rows"))
    return chunks.mapInArrow(decoder, ", ".join([DECODED, *[f"p{number} string" for number in range(len(payload))]]))


def last_words(rows: DataFrame) -> DataFrame:
    """The rows without those for which a message stands in that replaces them, nor that were to take it back."""
    together = Window.partitionBy(*IDENTITY)
    replacing = F.max(F.when(F.col("by_id") & ~F.col("cancelled"), F.col("sequence"))).over(together)
    cancel = F.max(F.when(F.col("cancelled"), F.col("sequence"))).over(together)
    stands_in = replacing >= F.coalesce(cancel, F.lit(-1))
    told = rows.withColumn("stands_in", F.when(stands_in, replacing))
    return told.where(F.col("stands_in").isNull() | (F.col("stands_in") == F.col("sequence"))).drop("stands_in")


def histogram(spark: SparkSession, checkpoint: str, now_ms: int, before_ms: int | None = None) -> dict[str, int]:
    """How many messages are pending, by how far away they are; duplicates and cancelled ones are not counted.
    `before_ms`: only those that are due before.
    """
    counts = dict.fromkeys([*EDGES_MS, LATER], 0)
    rows = records(spark, checkpoint)
    if rows is None:
        return counts
    messages = last_words(rows).groupBy(*IDENTITY).agg(F.max("cancelled").alias("cancelled"), F.min("due").alias("due"))
    if before_ms is not None:
        messages = messages.where(F.col("due") < before_ms)
    name = F.lit(LATER)
    for label, edge_ms in reversed(EDGES_MS.items()):
        name = F.when(F.col("due") <= now_ms + edge_ms, label).otherwise(name)
    for row in messages.where("not cancelled").groupBy(name.alias("when")).count().collect():
        counts[row["when"]] = row["count"]
    return counts


def messages(
    spark: SparkSession,
    checkpoint: str,
    id: str | None = None,
    key: str | None = None,
    before_ms: int | None = None,
    most: int | None = None,
) -> list[dict[str, object]]:
    """The rows in buckets that have this id, or key, or are due before: id, key, due, tick, payload columns, cancelled.
    The next due first, what belongs together as it arrived; `most` of them. Ids and keys of bytes are asked for as they
    are shown, those that are no text with a backslash.
    """
    found = indexes(spark, checkpoint)
    if not found:
        return []
    names = found[0].names
    payload = tuple(name for name in found[0].arrow_schema.names if name not in (*names, SEQUENCE, TOMBSTONE, BY_ID))
    rows = records(spark, checkpoint, payload)
    assert rows is not None
    for name, asked in {"id": id, "key": key}.items():
        if asked is not None:
            rows = rows.where(F.col(name).isin(bytes_of(asked), shown_as(asked)))
    # A message, its duplicates and its cancel are in one tick, and each may be due in another millisecond of it.
    rows = last_words(rows).withColumn("first", F.min("due").over(Window.partitionBy(*IDENTITY)))
    if before_ms is not None:
        rows = rows.where(F.col("first") < before_ms)
    rows = rows.orderBy("first", "id", "key", "sequence")
    return [
        {
            "id": shown(bytes(row["id"])),
            "key": None if row["key"] is None else shown(bytes(row["key"])),
            "due": row["due"],
            "tick": row["tick"],
            "payload": [row[f"p{number}"] for number in range(len(payload))],
            "cancelled": row["cancelled"],
        }
        for row in (rows if most is None else rows.limit(most)).collect()
    ]


def shown_as(text: str) -> bytes:
    """Bytes that `shown` shows so: \\xff is a byte again."""
    return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), bytes_of(text))


def bytes_of(text: str) -> bytes:
    """Text in UTF-8; where it came from a command line that is none, the bytes that stood there."""
    return text.encode(errors="surrogateescape")
