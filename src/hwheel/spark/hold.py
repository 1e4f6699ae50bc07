"""hold_until_due and dead_letters: the query."""

from array import array
from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hwheel.spark.durations import duration_ms
from hwheel.spark.message import BY_ID, HASH, SHARD, TOMBSTONE, is_true, malformed, message_columns, quoted
from hwheel.spark.session.conf import set_up_state_store, set_up_transfer, state_partitions
from hwheel.spark.shard.settings import Column, ColumnNames, Placement, WheelSettings
from hwheel.spark.worker import EMITTED, PACKED, HoldProcessor, Packer, labels, unpack
from hwheel_core import DEFAULT_WHEEL_SIZE, place

SHARDS_MOST = 4096


def hold_until_due(
    df: DataFrame,
    *,
    id: str,
    key: str,
    due: str,
    cancel: str | None = None,
    replace: str | None = None,
    payload: str | Sequence[str] | None = None,
    tick: str | timedelta = "1 second",
    wheel_size: int = DEFAULT_WHEEL_SIZE,
    shards: int | None = None,
    dedup: str | timedelta = "10 minutes",
    unreadable: str | None = None,
    by_id: bool = False,
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
            whichever comes first. With by_id, and no due: it takes back what there is of its id and key. None: there
            are no cancels.
        replace: with by_id, a boolean column; true: the row is a message that stands in for all that there is of its id
            and key. None: no message does.
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
        by_id: whether messages can be cancelled and replaced by id and key alone, by who does not know their due: an
            index of where messages lie is kept for it. What is said so is taken in order of arrival, the last word
            counts; and a message that is neither and comes within `dedup` after such a cancel or replacement is taken
            for one that was overtaken by it, and dropped.
    Returns:
        The messages that are due: id, key, due and the payload columns, as they came in.
    Raises:
        TypeError, ValueError: a column is not there or of the wrong type, or another argument is out of its range; the
            message names it. The frame is no streaming frame. The session's state store is not RocksDB, or
            batches without input are switched off.

    tick, wheel_size, shards, by_id, spark.sql.shuffle.partitions and the columns, their names, types and order, stay as
    they are for the life of a checkpoint.
    If the session has no state store provider configured, it is set to RocksDB, with changelog checkpointing; and
    spark.sql.execution.arrow.maxBytesPerBatch, if it was not chosen, to 16 MB.

    Memory: some 64 MB or a million messages of each shard at a time, however many come in or fall due; the rest waits
    in a temporary file.

    Runtime complexity: a batch costs O(messages in and out) and a state call a bucket touched, however many are held.
    With by_id one of 256 parts of the index is read for each id that is cancelled or replaced, at most all of it.
    """
    tick_ms = duration_ms(tick, "tick")
    dedup_ms = duration_ms(dedup, "dedup")
    place(array("q"), 0, tick_ms, wheel_size)  # checks both
    if not isinstance(df, DataFrame):
        raise TypeError(f"df must be a DataFrame, not {type(df).__name__}")
    if not df.isStreaming:
        raise ValueError("df must be a streaming DataFrame: spark.readStream makes one")
    columns = message_columns(df, id, key, due, cancel, payload, unreadable, replace, by_id)
    set_up_state_store(df.sparkSession)
    set_up_transfer(df.sparkSession)
    partitions = state_partitions(df.sparkSession)
    if shards is None:
        shards = partitions
    if isinstance(shards, bool) or not isinstance(shards, int):
        raise TypeError(f"shards must be an int, not {type(shards).__name__}")
    if not 1 <= shards <= SHARDS_MOST:
        raise ValueError(f"shards must be from 1 to {SHARDS_MOST}, not {shards}")

    whole_key = F.coalesce(quoted(key).cast("string"), quoted(id).cast("string"))
    of_ids = []
    if by_id:
        of_ids.append(((is_true(cancel) & quoted(due).isNull()) | is_true(replace)).alias(BY_ID))
        of_ids.append(F.xxhash64(quoted(id), quoted(key)).alias(HASH))
    held = df.where(malformed(df, id, due, unreadable, cancel, replace, by_id).isNull()).select(
        *[quoted(name).alias(columns.inside(name)) for name in columns.kept],
        is_true(cancel).alias(TOMBSTONE),
        *of_ids,
        F.pmod(F.xxhash64(whole_key), F.lit(shards)).alias(SHARD),
    )
    settings = WheelSettings(
        [Column(name, df.schema[name].dataType.simpleString()) for name in columns.kept],
        ColumnNames(columns.inside(id), columns.inside(key), columns.inside(due)),
        Placement(tick_ms, wheel_size, shards, partitions),
        dedup_ms,
        by_id=by_id,
    )
    messages = held.drop(TOMBSTONE, BY_ID, HASH, SHARD)
    return (
        held.mapInArrow(Packer(labels(shards, partitions)), PACKED)
        .groupBy("shard")
        .transformWithStateInPandas(HoldProcessor(settings), EMITTED, "Append", "ProcessingTime")
        .mapInArrow(unpack, messages.schema)
        .toDF(*columns.kept)
    )


def dead_letters(
    df: DataFrame,
    *,
    id: str,
    key: str,
    due: str,
    cancel: str | None = None,
    replace: str | None = None,
    unreadable: str | None = None,
    by_id: bool = False,
) -> DataFrame:
    """The malformed rows of a frame, which `hold_until_due` leaves out, with a column `reason` added.

    Malformed is a row that the reader marked as unreadable, or one without an id, or without a due time, or with one
    before 1970 or after 9999; with by_id also one that is both a cancel and a replacement. No state is needed to tell,
    so this is a query of its own, with a sink of its own.

    Arguments:
        df: the frame that goes into `hold_until_due`; it may be a batch one.
        id, key, due, unreadable: its columns, as there.
        cancel, replace, by_id: with by_id as there, since a cancel needs no due then. Else they change nothing.
    Raises:
        TypeError, ValueError: as there.
    """
    message_columns(df, id, key, due, cancel, [], unreadable, replace, by_id)
    if "reason" in df.columns:
        raise ValueError("df must have no column 'reason': that is what is added")
    return df.withColumn("reason", malformed(df, id, due, unreadable, cancel, replace, by_id)).where(
        F.col("reason").isNotNull()
    )
