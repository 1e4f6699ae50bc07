"""Moving all held messages of a checkpoint into files for another job."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from hwheel.spark.arrow import from_chunk
from hwheel.spark.deliver.checkpoint import DEAD_LETTERS, MESSAGES, OPTIONS, last_batch, stored_outputs
from hwheel.spark.deliver.directory import Directory, steps_of
from hwheel.spark.deliver.input_files import SourceLog
from hwheel.spark.deliver.kept_input import stored_input
from hwheel.spark.deliver.owner import Owner, check_late_letters, check_output, owner_of, query_id, store_owner
from hwheel.spark.deliver.pending import IDENTITY, indexes, records, state_variable, without_replaced
from hwheel.spark.deliver.rest import deadline_of_idle_batch
from hwheel.spark.deliver.settings import MOVED, OPTIONS_FILE, UNITS_MS, CheckpointOptionsError, WheelOptions
from hwheel.spark.deliver.topic import is_topic
from hwheel.spark.shard.delivered import delivered_schema
from hwheel.spark.shard.neutral import as_bytes, payload_names

STAGING = ".hwheel-moved"


@dataclass(frozen=True)
class DeliveredDecoder:
    """Decode the chunks of delivered ids inside mapInArrow."""

    schema: bytes

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        for batch in batches:
            for chunk in batch.column("rows"):
                rows = from_chunk(chunk.as_buffer(), schema)
                identity = [as_bytes(rows.column(0)), as_bytes(rows.column(1)), rows.column("tick")]
                yield pa.RecordBatch.from_arrays(identity, names=[*IDENTITY])


def move(checkpoint: Directory, target: Directory) -> int:
    """Write all held messages as input files for another job, and retire the checkpoint. Return the number of lines.

    The job must not be running. A message that has a cancel becomes a cancel, and duplicates become one message.
    Delivered messages that the checkpoint remembers become cancels, so that their duplicates are dropped. After an
    interruption, the same call completes the move.

    Raises:
        CheckpointOptionsError: The checkpoint cannot be moved now, or lines of JSON cannot hold its messages.
        TimesDifferError: The checkpoint or one of its outputs was restored from an older copy.
    """
    spark = checkpoint.spark
    if not checkpoint.exists(MOVED):
        unit_ms = check_movable(checkpoint)
        lines = lines_of(spark, f"{checkpoint.path}/{MESSAGES}", unit_ms)
        target.make()
        lines.write.mode("overwrite").text(f"{target.path}/{STAGING}")
        checkpoint.write(MOVED, target.url)
    elif checkpoint.read(MOVED) != target.url:
        raise CheckpointOptionsError(f"the messages of the checkpoint were moved to {checkpoint.read(MOVED)} already")
    close_outputs(checkpoint)
    count = 0
    id = str(spark.read.json(f"{checkpoint.path}/{MESSAGES}/metadata").first()["id"])[:8]  # type: ignore[index]
    for name in target.names(STAGING) if target.exists(STAGING) else []:
        if name.startswith("part-"):
            count += spark.read.text(f"{target.path}/{STAGING}/{name}").count()
            target.move(f"{STAGING}/{name}", f"moved-{id}-{name.split('-')[1]}.json")
    target.delete(STAGING)
    return count


def close_outputs(checkpoint: Directory) -> None:
    """Store a later batch in the outputs than the checkpoint has, so that a job on a copy of the checkpoint fails."""
    for name, url in stored_outputs(checkpoint).items():
        if is_topic(url):
            continue
        query, output = checkpoint.child_directory(name), Directory(checkpoint.spark, url)
        id, owner = query_id(query), owner_of(output)
        if id is not None and (owner is None or owner.query_id == id):
            store_owner(output, Owner(id, last_batch(query, "offsets") + 1))


def check_outputs(checkpoint: Directory) -> None:
    """Raise TimesDifferError if the checkpoint and its outputs are from different times, as a start does."""
    for name, url in stored_outputs(checkpoint).items():
        if is_topic(url):
            continue
        output = Directory(checkpoint.spark, url)
        check_output(checkpoint.child_directory(name), output, OPTIONS[name])
        if name == DEAD_LETTERS:
            check_late_letters(checkpoint.child_directory(MESSAGES), output, OPTIONS[name])


def check_movable(checkpoint: Directory) -> int:
    """Return the unit of due times in ms. Raise an error if messages would be lost, changed, or sent again."""
    query = checkpoint.child_directory(MESSAGES)
    if last_batch(query, "commits") < 0 or not checkpoint.exists(OPTIONS_FILE):
        raise CheckpointOptionsError(
            f"{checkpoint.path} is not a checkpoint of `hwheel deliver` with a completed batch"
        )
    begun = last_batch(query, "offsets")
    if begun != last_batch(query, "commits") and deadline_of_idle_batch(query, begun) is None:
        raise CheckpointOptionsError(
            "a batch was interrupted\nstart the job again, let it complete a batch, and stop it"
        )
    check_outputs(checkpoint)
    wheel = WheelOptions.from_json(checkpoint.read(OPTIONS_FILE))
    if wheel.source == "a topic with headers":
        raise CheckpointOptionsError(
            "the messages of --kafka-format headers have bytes, which lines of JSON cannot hold"
        )
    place, _ = stored_input(checkpoint) or ("", "")
    if place and not is_topic(place):
        source = Directory(checkpoint.spark, place)
        read = {entry.name for entry in SourceLog(query, steps_of(source.url)).newly_done()}
        names = source.changed_ms() if source.exists() else {}
        if unread := [name for name in names if name[0] not in "._" and name not in read]:
            raise CheckpointOptionsError(
                f"{len(unread):,} files of {place} are not read yet, such as {unread[0]}\n"
                "start the job again until it has read them, or move them to the input of the other job"
            )
    return UNITS_MS[wheel.due_unit]


def lines_of(spark: SparkSession, place: str, unit_ms: int) -> DataFrame:
    """Return a line for each held message, cancel, and delivered message, in order of arrival for each key."""
    found = indexes(spark, place)
    if not found:  # the job has read nothing but dead letters
        return spark.createDataFrame([], "value string")
    names, schema = found[0].names, found[0].arrow_schema
    payload = payload_names(schema, names)
    stored = {f"c{at}": column.name for at, column in enumerate(found[0].columns)}
    if others := {*(stored[name] for name in payload)} - {"payload", "target"}:
        raise CheckpointOptionsError(f"lines of JSON cannot hold {', '.join(sorted(others))} of the messages")
    rows = records(spark, place, payload)
    assert rows is not None
    first = Window.partitionBy(*IDENTITY).orderBy(F.col("cancelled").desc(), "due", "sequence")
    rows = without_replaced(rows).withColumn("place", F.row_number().over(first)).where("place = 1")
    by_id = found[0].by_id is not None
    remembered = delivered_schema([schema.field(name) for name in names.identity], by_id)
    chunks = state_variable(spark, place, "delivered").select(F.col("user_map_value.rows").alias("rows"))
    decoder = DeliveredDecoder(bytes(remembered.serialize()))
    delivered = chunks.mapInArrow(decoder, "id binary, key binary, tick bigint").withColumnsRenamed({"tick": "due"})
    delivered = delivered.withColumns({"cancelled": F.lit(True), "sequence": F.lit(-1).cast("bigint")})
    rows = rows.unionByName(delivered, allowMissingColumns=True)
    fields = [F.col(name).cast("string").alias(name) for name in ("id", "key")]
    fields += [F.expr(f"due div {unit_ms}").alias("due"), F.when(F.col("cancelled"), F.lit(True)).alias("cancel")]
    named = {"payload": "payload", "target": "topic"}
    fields += [F.when(~F.col("cancelled"), F.col(f"p{at}")).alias(named[stored[one]]) for at, one in enumerate(payload)]
    rows = rows.repartition("key").sortWithinPartitions("sequence")
    return rows.select(F.to_json(F.struct(*fields)).alias("value"))
