"""hold_until_due() and dead_letters(): the query."""

from array import array
from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hwheel.spark.durations import duration_ms
from hwheel.spark.message import BY_ID, HASH, SHARD, TOMBSTONE, MessageColumns, is_true, malformed, quoted
from hwheel.spark.session.conf import INDEX_DIRECTORY, set_up_state_store, set_up_transfer, state_partitions
from hwheel.spark.shard.settings import Column, ColumnNames, Placement, WheelSettings
from hwheel.spark.worker import EMITTED, PACKED, HoldProcessor, Packer, shard_labels, unpack
from hwheel_core import DEFAULT_WHEEL_SIZE, place

MAX_SHARDS = 4096


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
    """Hold the messages of a streaming frame until they are due.

    The query emits each message once, in the first batch that starts after the end of its tick. No message is early by
    the driver's clock. Messages of one key are ordered by due time and then by arrival. A message that is already due
    is emitted in its first batch. Malformed rows are dropped; ``dead_letters()`` returns them.

    The arguments tick, wheel_size, shards, and by_id, the setting spark.sql.shuffle.partitions, and the names, types,
    and order of the columns must not change during the life of a checkpoint.

    If the session has no state store provider, this function chooses RocksDB with changelog checkpointing. If
    spark.sql.execution.arrow.maxBytesPerBatch is not set, this function sets it to 16 MB.

    Args:
        df: A streaming frame.
        id: The column that identifies a message: a string, binary, or an integer. Two rows with equal id, key, and due
            are the same message.
        key: The column within which order is kept. Null is a key of its own for each message. A message, its
            duplicates, and its cancel must have the same key.
        due: The due time: a bigint of epoch milliseconds, or a timestamp.
        cancel: A boolean column. Where it is true, the row cancels the message with the same id, key, and due; either
            may arrive first. With by_id, a cancel without due cancels all earlier messages with its id and key.
            Default: no row is a cancel.
        replace: With by_id, a boolean column. Where it is true, the message replaces all earlier messages with its id
            and key. Default: no message is a replacement.
        payload: The columns to keep, one or several. Default: all other columns.
        tick: The resolution of due times, which are rounded up to it.
        wheel_size: The number of buckets in each level of the wheel.
        shards: The number of parts into which keys are divided; each part has its own wheel. Default, and best: the
            number of state partitions (spark.sql.shuffle.partitions).
        dedup: How long a delivered or cancelled message is remembered, so that a duplicate is dropped. A pending
            message is always remembered.
        unreadable: The column in which the reader marks rows that it could not parse, such as Spark's
            ``_corrupt_record``. A row is malformed where it is not null. Default: a field of the wrong type is null, so
            that a cancel whose flag is the string "true" would be delivered as a message.
        by_id: Whether messages can be cancelled and replaced by id and key alone. This needs an index of pending
            messages. Rows are applied in order of arrival. For ``dedup`` after such a cancel or replacement, an
            ordinary message with its id and key counts as delayed in transit and is dropped.

    Returns:
        The due messages: id, key, due, and payload columns, unchanged.

    Raises:
        TypeError, ValueError: A column is missing or has the wrong type, an argument is out of range, the frame is not
            streaming, the session's state store is not RocksDB, or batches without input are disabled.

    Each shard needs about 64 MB of memory, or enough for a million messages, however many arrive or are due. The rest
    waits in a temporary file.

    A batch costs O(messages in and out), plus one state call for each bucket touched. The number of pending messages
    does not matter. With by_id, each cancelled or replaced id reads one of 256 parts of the index.

    Example:
        >>> from hwheel.spark import hold_until_due
        >>> reminders = spark.readStream.schema(schema).json("inbox")  # doctest: +SKIP
        >>> messages = hold_until_due(reminders, id="id", key="user", due="due")  # doctest: +SKIP
        >>> query = messages.writeStream.format("console").start()  # doctest: +SKIP
    """
    columns = MessageColumns(id, key, due, cancel, replace, unreadable, by_id)
    tick_ms = duration_ms(tick, "tick")
    dedup_ms = duration_ms(dedup, "dedup")
    place(array("q"), 0, tick_ms, wheel_size)  # checks both
    if not isinstance(df, DataFrame):
        raise TypeError(f"df must be a DataFrame, not {type(df).__name__}")
    if not df.isStreaming:
        raise ValueError("df must be a streaming DataFrame, such as spark.readStream returns")
    columns = columns.with_payload(df, payload)
    columns.check(df)
    set_up_state_store(df.sparkSession)
    set_up_transfer(df.sparkSession)
    partitions = state_partitions(df.sparkSession)
    placement = Placement(tick_ms, wheel_size, checked_shards(shards, partitions), partitions)
    settings = WheelSettings(
        [Column(name, df.schema[name].dataType.simpleString()) for name in columns.kept],
        ColumnNames(columns.inner_name(id), columns.inner_name(key), columns.inner_name(due)),
        placement,
        dedup_ms,
        by_id=by_id,
        index_directory=df.sparkSession.conf.get(INDEX_DIRECTORY, None),
    )
    rows = rows_to_hold(df, columns, placement.shards)
    messages = rows.drop(TOMBSTONE, BY_ID, HASH, SHARD)
    return (
        rows.mapInArrow(Packer(shard_labels(placement.shards, partitions)), PACKED)
        .groupBy("shard")
        .transformWithStateInPandas(HoldProcessor(settings), EMITTED, "Append", "ProcessingTime")
        .mapInArrow(unpack, messages.schema)
        .toDF(*columns.kept)
    )


def checked_shards(shards: int | None, partitions: int) -> int:
    if shards is None:
        return partitions
    if isinstance(shards, bool) or not isinstance(shards, int):
        raise TypeError(f"shards must be an int, not {type(shards).__name__}")
    if not 1 <= shards <= MAX_SHARDS:
        raise ValueError(f"shards must be from 1 to {MAX_SHARDS}, not {shards}")
    return shards


def rows_to_hold(df: DataFrame, columns: MessageColumns, shards: int) -> DataFrame:
    """Return the well-formed rows with the query's own column names and flags."""
    # If the key of a message is null, its id selects the shard.
    whole_key = F.coalesce(quoted(columns.key).cast("string"), quoted(columns.id).cast("string"))
    cancel = is_true(columns.cancel)
    of_ids = []
    if columns.by_id:
        of_ids.append(((cancel & quoted(columns.due).isNull()) | is_true(columns.replace)).alias(BY_ID))
        of_ids.append(F.xxhash64(quoted(columns.id), quoted(columns.key)).alias(HASH))
    return df.where(malformed(df, columns).isNull()).select(
        *[quoted(name).alias(columns.inner_name(name)) for name in columns.kept],
        cancel.alias(TOMBSTONE),
        *of_ids,
        F.pmod(F.xxhash64(whole_key), F.lit(shards)).alias(SHARD),
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
    """Return the malformed rows, which ``hold_until_due()`` drops, with a column ``reason``.

    A row is malformed if the reader marked it as unreadable, if it has no id, or if its due time is missing, before
    1970, or after 9999. With by_id, a row that is both a cancel and a replacement is malformed, and a cancel needs no
    due time. The check needs no state, so this is a separate query with a separate sink.

    Args:
        df: The frame that ``hold_until_due()`` reads. It may be a batch frame.
        id, key, due, unreadable: As in ``hold_until_due()``.
        cancel, replace, by_id: As in ``hold_until_due()``. Without by_id they change nothing.

    Raises:
        TypeError, ValueError: As in ``hold_until_due()``.

    Example:
        >>> from hwheel.spark import dead_letters
        >>> reminders = spark.read.schema(schema).json("inbox")  # doctest: +SKIP
        >>> dead_letters(reminders, id="id", key="user", due="due").select("id", "reason").show()  # doctest: +SKIP
    """
    columns = MessageColumns(id, key, due, cancel, replace, unreadable, by_id)
    columns.check(df)
    if "reason" in df.columns:
        raise ValueError("df must not have a column 'reason', because dead_letters() adds it")
    return df.withColumn("reason", malformed(df, columns)).where(F.col("reason").isNotNull())
