"""The pending messages of a checkpoint, read from its state store while the query runs."""

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from hwheel.lookup.texts import bytes_of, shown, shown_as
from hwheel.spark.arrow import from_chunk
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.shard.neutral import neutral_rows, payload_names
from hwheel.spark.shard.settings import ColumnNames
from hwheel.spark.shard.state import ShardIndex

NEUTRAL_ROWS = "id binary, key binary, due bigint, tick bigint, cancelled boolean, by_id boolean, sequence bigint"
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

# Temporary directories with a link to a checkpoint, by checkpoint path.
LINKS: dict[str, TemporaryDirectory[str]] = {}


@dataclass(frozen=True)
class Decoder:
    """Decode the chunks of buckets into ``neutral_rows()``, inside mapInArrow.

    Args:
        payload: Columns of the message to add as text.
    """

    schema: bytes
    tick_ms: int
    names: ColumnNames
    payload: tuple[str, ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        for batch in batches:
            for chunk in batch.column("rows"):
                rows = pa.Table.from_batches([from_chunk(chunk.as_buffer(), schema)])
                yield from neutral_rows(rows, self.names, self.tick_ms, self.payload).to_batches()


def readable_path(spark: SparkSession, checkpoint: str) -> str:
    """Return a path at which Spark's state reader finds a checkpoint.

    The reader uses an encoded URL as a path. So a local checkpoint whose URL has %20 or the like gets a link.
    """
    directory = Directory(spark, checkpoint)
    place = directory.local_path
    if place is None or directory.encoded_url == directory.url:
        return checkpoint
    if place not in LINKS:
        LINKS[place] = TemporaryDirectory(prefix="hwheel-")
        os.symlink(place, f"{LINKS[place].name}/checkpoint")
    return f"{LINKS[place].name}/checkpoint"


def state_variable(spark: SparkSession, checkpoint: str, variable: str) -> DataFrame:
    """Return a state variable of the query, as of its last committed batch."""
    _ = spark.streams  # starts the coordinator of state stores; Spark 4.1 needs it here, but does not start it
    return spark.read.format("statestore").option("stateVarName", variable).load(readable_path(spark, checkpoint))


def indexes(spark: SparkSession, checkpoint: str) -> list[ShardIndex]:
    """Return the indexes of all shards that have state."""
    return [
        ShardIndex.from_json(row.json)
        for row in state_variable(spark, checkpoint, "index").select("value.json").collect()
    ]


def rows_held(spark: SparkSession, checkpoint: str) -> int:
    """Count all stored rows: messages, duplicates, and cancels. Reads no bucket."""
    return sum(entry.rows for index in indexes(spark, checkpoint) for entry in index.buckets.values())


def rows_by_due(found: Iterable[ShardIndex], now_ms: int) -> dict[str, int]:
    """Count all stored rows by the time until their bucket expires."""
    counts = dict.fromkeys([*EDGES_MS, LATER], 0)
    edges = [*EDGES_MS.values()]
    for index in found:
        for (_, expiration_ms), entry in index.buckets.items():
            counts[[*counts][bisect_left(edges, expiration_ms - now_ms)]] += entry.rows
    return counts


def records(spark: SparkSession, checkpoint: str, payload: tuple[str, ...] = ()) -> DataFrame | None:
    """Return all rows in buckets, or None if no shard has state."""
    found = indexes(spark, checkpoint)
    if not found:
        return None
    index = found[0]  # all shards have the same schema, tick, and names
    decoder = Decoder(bytes(index.arrow_schema.serialize()), index.placement.tick_ms, index.names, payload)
    chunks = state_variable(spark, checkpoint, "buckets").select(F.col("user_map_value.rows").alias("rows"))
    columns = [NEUTRAL_ROWS, *(f"p{number} string" for number in range(len(payload)))]
    return chunks.mapInArrow(decoder, ", ".join(columns))


def without_replaced(rows: DataFrame) -> DataFrame:
    """Remove messages that a later message with the same id replaces, and the cancels before it."""
    together = Window.partitionBy(*IDENTITY)
    replacing = F.max(F.when(F.col("by_id") & ~F.col("cancelled"), F.col("sequence"))).over(together)
    cancel = F.max(F.when(F.col("cancelled"), F.col("sequence"))).over(together)
    is_final = replacing >= F.coalesce(cancel, F.lit(-1))
    marked = rows.withColumn("last_replacement", F.when(is_final, replacing))
    return marked.where(F.col("last_replacement").isNull() | (F.col("last_replacement") == F.col("sequence"))).drop(
        "last_replacement"
    )


def histogram(spark: SparkSession, checkpoint: str, now_ms: int, before_ms: int | None = None) -> dict[str, int]:
    """Count the pending messages by the time until they are due, without duplicates and cancelled ones.

    Args:
        before_ms: Count only messages that are due earlier.
    """
    counts = dict.fromkeys([*EDGES_MS, LATER], 0)
    rows = records(spark, checkpoint)
    if rows is None:
        return counts
    by_identity = without_replaced(rows).groupBy(*IDENTITY)
    messages = by_identity.agg(F.max("cancelled").alias("cancelled"), F.min("due").alias("due"))
    if before_ms is not None:
        messages = messages.where(F.col("due") < before_ms)
    label = F.lit(LATER)
    for text, edge_ms in reversed(EDGES_MS.items()):
        label = F.when(F.col("due") <= now_ms + edge_ms, text).otherwise(label)
    for row in messages.where("not cancelled").groupBy(label.alias("when")).count().collect():
        counts[row["when"]] = row["count"]
    return counts


def matching_rows(
    spark: SparkSession,
    checkpoint: str,
    id: str | None = None,
    key: str | None = None,
    before_ms: int | None = None,
    most: int | None = None,
) -> list[dict[str, object]]:
    """Return the stored rows that match all given filters.

    The earliest due time is first. Rows with equal id, key, and tick are together, in order of arrival.

    Args:
        id, key: As text. Bytes that are not UTF-8 are written with backslash escapes, as in the result.
        before_ms: Only rows whose group (equal id, key, and tick) is first due earlier.
        most: The maximum number of rows.

    Returns:
        Dictionaries with id, key, due, tick, payload, and cancelled.
    """
    found = indexes(spark, checkpoint)
    if not found:
        return []
    payload = payload_names(found[0].arrow_schema, found[0].names)
    rows = records(spark, checkpoint, payload)
    assert rows is not None
    for name, asked in {"id": id, "key": key}.items():
        if asked is not None:
            rows = rows.where(F.col(name).isin(bytes_of(asked), shown_as(asked)))
    # A message, its duplicates, and its cancel may be due in different milliseconds of one tick.
    rows = without_replaced(rows).withColumn("first", F.min("due").over(Window.partitionBy(*IDENTITY)))
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


def cancels(spark: SparkSession, checkpoint: str, keys: Iterable[str], unit_ms: int) -> DataFrame | None:
    """Return a line of JSON that cancels it for each pending message with one of these keys. Without state, None.

    Args:
        keys: As in ``matching_rows()``.
        unit_ms: The unit of due times in the lines.
    """
    rows = records(spark, checkpoint)
    if rows is None:
        return None
    wanted = spark.createDataFrame([(key,) for text in keys for key in {bytes_of(text), shown_as(text)}], "key binary")
    messages = (
        without_replaced(rows).groupBy(*IDENTITY).agg(F.max("cancelled").alias("gone"), F.min("due").alias("due"))
    )
    fields = [F.col(name).cast("string").alias(name) for name in ("id", "key")]
    due = F.expr(f"due div {unit_ms}").alias("due")
    lines = messages.where("not gone").join(F.broadcast(wanted.distinct()), "key", "left_semi")
    return lines.select(F.to_json(F.struct(*fields, due, F.lit(True).alias("cancel"))).alias("line"))
