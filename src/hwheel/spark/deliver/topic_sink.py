"""A topic that gets each batch's messages, at least once.

A topic cannot take a batch back: one that was cut off is sent again, whole, after what its first attempt got there.
Each attempt sends a key's messages in order through one task, the producer neither reorders nor repeats them, and none
is left out before another; so the first of each, by id and due, are in order too, and a consumer that drops what it has
seen gets each message once.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hwheel.spark.deliver.sink import Sink
from hwheel.spark.deliver.source import FILE, HEADERS_TYPE, LINE, PLACE_IN_TOPIC, RECORD
from hwheel.spark.deliver.topic import HEADERS, TARGET, KafkaOptions, Topic

# A send that is given up after some time while later ones succeed would leave a gap, and the repeated batch would fill
# it out of order. So none is given up: without brokers the job waits.
PRODUCER = {"enable.idempotence": "true", "acks": "all", "delivery.timeout.ms": str(2**31 - 1)}
OLDER_WAY = "spark.sql.sources.useV1SourceList"
CONNECT = "__connect.errors."


@dataclass(kw_only=True)
class TopicSink(Sink):
    """What foreachBatch calls. `records` makes key, value and headers of a batch."""

    topic: Topic
    options: KafkaOptions
    records: Callable[[DataFrame], DataFrame]

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Sends it; returns when the brokers have it all."""
        # Observations are lost on Spark's older way into its Kafka sink, which is the one that it takes unless told.
        session = batch.sparkSession
        older = (session.conf.get(OLDER_WAY) or "").split(",")
        session.conf.set(OLDER_WAY, ",".join(name for name in older if name != "kafka"))
        self.add(batch, "")

    def add(self, rows: DataFrame, name: str) -> None:
        """Sends them; as often as it is called."""
        conf = {**PRODUCER, **self.options.conf, "bootstrap.servers": self.topic.brokers}
        (
            self.records(rows)
            .withColumn("topic", F.coalesce("topic", F.lit(self.topic.name)))
            .write.format("kafka")
            .mode("append")
            .options(**{f"kafka.{name}": value for name, value in conf.items()})
            .save()
        )


def json_records(messages: DataFrame) -> DataFrame:
    """The message as JSON; id and due are headers, too."""
    return messages.select(
        F.col("key"), F.to_json(F.struct("id", "key", "due", "payload")).alias("value"), *ways(messages)
    )


def header_records(messages: DataFrame) -> DataFrame:
    """The payload alone; id and due are headers."""
    return messages.select(F.col("key"), F.col("payload").alias("value"), *ways(messages))


def ways(messages: DataFrame) -> list[Column]:
    """The topic that the message names, null if it names none, and the headers: those that its record came with, and
    behind them its identity."""
    target = F.col(TARGET).alias("topic") if TARGET in messages.columns else no_topic()
    headers = F.concat(F.col(HEADERS), identity()) if HEADERS in messages.columns else identity()
    return [target, headers.alias("headers")]


def no_topic() -> Column:
    """That of the sink."""
    return F.lit(None).cast("string").alias("topic")


def identity() -> Column:
    """What a consumer knows a message by."""
    return F.array(header("id", F.col("id")), header("due", F.col("due")))


def dead_records(rows: DataFrame) -> DataFrame:
    """What was no message, as it came, with a header `reason`, and with those by which Kafka Connect's own dead letters
    say where a record was and why it is there: so whoever reads such can read these.
    """
    reason = F.array(header("reason", F.col("reason")))
    if RECORD in rows.columns:
        came_with = F.coalesce(F.col(RECORD)["headers"], F.array().cast(HEADERS_TYPE))
        place = F.array(*(header(f"{CONNECT}{name}", F.col(name)) for name in PLACE_IN_TOPIC))
        why = F.array(header(f"{CONNECT}exception.message", F.col("reason")))
        headers = F.concat(came_with, reason, place, why)
        return rows.select(f"{RECORD}.key", f"{RECORD}.value", headers.alias("headers"), no_topic())
    names = [name for name in rows.columns if name not in ("reason", LINE, FILE)]
    value = F.to_json(F.struct(*names))
    if LINE in rows.columns:
        value = F.coalesce(F.col(LINE), value)
    if FILE in rows.columns:
        reason = F.concat(reason, F.array(header("file", F.col(FILE))))
    return rows.select(F.col("key"), value.alias("value"), reason.alias("headers"), no_topic())


def header(name: str, value: Column) -> Column:
    """A header of a record: a struct of its name and its value as bytes."""
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
