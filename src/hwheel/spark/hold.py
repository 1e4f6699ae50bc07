"""hold_until_due and dead_letters: the query."""

from array import array
from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hwheel.spark.durations import duration_ms
from hwheel.spark.message import SHARD, TOMBSTONE, malformed, message_columns, quoted
from hwheel.spark.packing import PACKED, Packer, unpack
from hwheel.spark.processor import EMITTED, HoldProcessor
from hwheel.spark.session.state_store import set_up_state_store, set_up_transfer, state_partitions
from hwheel.spark.shard.labels import labels
from hwheel.spark.shard.settings import Column, ColumnNames, Placement, WheelSettings
from hwheel_core import DEFAULT_WHEEL_SIZE, place

SHARDS_MOST = 4096


def hold_until_due(
    df: DataFrame,
    *,
    id: str,
    key: str,
    due: str,
    cancel: str | None = None,
    payload: str | Sequence[str] | None = None,
    tick: str | timedelta = "1 second",
    wheel_size: int = DEFAULT_WHEEL_SIZE,
    shards: int | None = None,
    dedup: str | timedelta = "10 minutes",
    unreadable: str | None = None,
) -> DataFrame:
    """Holds the messages of a streaming frame until they are due.

    Each message goes out once, in the first batch that starts when its tick is over: never before it is due by the
    driver's clock, messages of one key in order of due time and then of arrival. What is due already goes out in its
    first batch. Malformed rows (`dead_letters` gives them) are left out.

    Arguments:
        df: a streaming frame.
        id: the column that tells messages apart: a string, binary or an integer. The same id again with the same due is
            the same message.
        key: the column within which order is kept; a null key is a message of its own. A message, its duplicates and
            its cancel have the same key.
        due: when to go out: a bigint of epoch milliseconds, or a timestamp.
        cancel: a boolean column; true: the row is no message, it takes back the one with the same id, key and due,
            whichever comes first. None: there are no cancels.
        payload: the columns to carry along, one or several. None: all others.
        tick: how finely time is told: due times are rounded up to it.
        wheel_size: buckets a level of the wheel.
        shards: into how many parts the keys are divided, each with a wheel of its own. None: one for each state
            partition (spark.sql.shuffle.partitions), which is best.
        dedup: how long after it was delivered (or cancelled) a message is known when it comes again; before that it
            always is.
        unreadable: the column in which the reader marks a row that it could not read whole, as Spark's does in
            `_corrupt_record`: where it is not null, the row is malformed. None: there is none, and a field of the wrong
            type is as one that is not there; so a cancel whose `true` is a string goes out as a message.
    Returns:
        The messages that are due: id, key, due and the payload columns, as they came in.
    Raises:
        TypeError, ValueError: a column is not there or of the wrong type, or another argument is out of its range; the
            message names it. The frame is no streaming frame. The session's state store is not RocksDB, or
            batches without input are switched off.

    tick, wheel_size, shards, spark.sql.shuffle.partitions and the columns, their names, types and order, stay as they
    are for the life of a checkpoint.
    If the session has no state store provider configured, it is set to RocksDB, with changelog checkpointing; and
    spark.sql.execution.arrow.maxBytesPerBatch, if it was not chosen, to 16 MB.

    Memory: some 64 MB or a million messages of each shard at a time, however many come in or fall due; the rest waits
    in a temporary file.

    Runtime complexity: a batch costs O(messages in and out) and a state call a bucket touched, however many are held.
    """
    tick_ms = duration_ms(tick, "tick")
    dedup_ms = duration_ms(dedup, "dedup")
    place(array("q"), 0, tick_ms, wheel_size)  # checks both
    if not isinstance(df, DataFrame):
        raise TypeError(f"df must be a DataFrame, not {type(df).__name__}")
    if not df.isStreaming:
        raise ValueError("df must be a streaming DataFrame: spark.readStream makes one")
    columns = message_columns(df, id, key, due, cancel, payload, unreadable)
    set_up_state_store(df.sparkSession)
    set_up_transfer(df.sparkSession)
    partitions = state_partitions(df.sparkSession)
    if shards is None:
        shards = partitions
    if isinstance(shards, bool) or not isinstance(shards, int):
        raise TypeError(f"shards must be an int, not {type(shards).__name__}")
    if not 1 <= shards <= SHARDS_MOST:
        raise ValueError(f"shards must be from 1 to {SHARDS_MOST}, not {shards}")

    tombstone = F.lit(False) if cancel is None else F.coalesce(quoted(cancel), F.lit(False))
    whole_key = F.coalesce(quoted(key).cast("string"), quoted(id).cast("string"))
    held = df.where(malformed(df, id, due, unreadable).isNull()).select(
        *[quoted(name).alias(columns.inside(name)) for name in columns.kept],
        tombstone.alias(TOMBSTONE),
        F.pmod(F.xxhash64(whole_key), F.lit(shards)).alias(SHARD),
    )
    settings = WheelSettings(
        [Column(name, df.schema[name].dataType.simpleString()) for name in columns.kept],
        ColumnNames(columns.inside(id), columns.inside(key), columns.inside(due)),
        Placement(tick_ms, wheel_size, shards, partitions),
        dedup_ms,
    )
    messages = held.drop(TOMBSTONE, SHARD)
    return (
        held.mapInArrow(Packer(labels(shards, partitions)), PACKED)
        .groupBy("shard")
        .transformWithStateInPandas(HoldProcessor(settings), EMITTED, "Append", "ProcessingTime")
        .mapInArrow(unpack, messages.schema)
        .toDF(*columns.kept)
    )


def dead_letters(df: DataFrame, *, id: str, key: str, due: str, unreadable: str | None = None) -> DataFrame:
    """The malformed rows of a frame, which `hold_until_due` leaves out, with a column `reason` added.

    Malformed is a row that the reader marked as unreadable, or one without an id, or without a due time, or with one
    before 1970 or after 9999. No state is needed to tell, so this is a query of its own, with a sink of its own.

    Arguments:
        df: the frame that goes into `hold_until_due`; it may be a batch one.
        id, key, due, unreadable: its columns, as there.
    Raises:
        TypeError, ValueError: as there.
    """
    message_columns(df, id, key, due, None, [], unreadable)
    if "reason" in df.columns:
        raise ValueError("df must have no column 'reason': that is what is added")
    return df.withColumn("reason", malformed(df, id, due, unreadable)).where(F.col("reason").isNotNull())
