"""A stream of the messages that come into a topic."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hwheel.spark.deliver.topic import KafkaOptions, Topic

RECORD = "record"               # the record as it came, for a topic of dead letters


def topic_messages(spark: SparkSession, topic: Topic, options: KafkaOptions, schema: str) -> DataFrame:
    """The columns of a message, beside them `partition`, `offset` and the `record` itself, for the dead letters.

    As JSON (`schema`) the key of the message is the record's where the JSON has none, and `line` is the value as text.
    With headers, key and payload are the record's key and value as they are, bytes.
    """
    reader = (
        spark.readStream.format("kafka").option("kafka.bootstrap.servers", topic.brokers)
        .option("subscribe", topic.name).option("includeHeaders", True)
        .option("startingOffsets", options.starting_offsets).option("failOnDataLoss", not options.skip_lost)
        .options(**{f"kafka.{name}": value for name, value in options.conf.items()})
    )
    if options.offsets_a_batch:
        reader = reader.option("maxOffsetsPerTrigger", options.offsets_a_batch)
    records = reader.load()
    record = F.struct("key", "value", "headers").alias(RECORD)
    where = [F.col("partition"), F.col("offset"), record]
    if options.format == "headers":
        return records.select(
            header("id").alias("id"), "key", header("due").try_cast("bigint").alias("due"),
            header("cancel").try_cast("boolean").alias("cancel"), F.col("value").alias("payload"), *where,
        )
    text = F.make_valid_utf8(F.col("value").cast("string"))
    parsed = records.select(F.from_json(text, schema).alias("message"), text.alias("line"), "key", *where)
    key = F.coalesce("message.key", F.make_valid_utf8(F.col("key").cast("string")))
    return parsed.select(
        "message.id", key.alias("key"), "message.due", "message.cancel", "message.payload",
        "line", "partition", "offset", RECORD,
    )


def header(name: str) -> Column:
    """The last header of this name as text; null if there is none or it is no UTF-8."""
    found = F.filter("headers", lambda one: one["key"] == name)
    return F.try_validate_utf8(F.get(found, F.size(found) - 1)["value"].cast("string"))
