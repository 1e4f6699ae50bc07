"""Where the messages of a delivery come from: a stream of the files in a directory, or of the records of a topic."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hwheel.spark.deliver.topic import KafkaOptions, Topic, is_topic

SCHEMA = "id string, key string, due bigint, cancel boolean, payload string"
UNREADABLE = "line"  # what of a JSON file is no message, as it stands there
RECORD = "record"  # the record as it came, for a topic of dead letters


def messages_in(
    spark: SparkSession, place: str, format: str, files_a_batch: int | None, kafka: KafkaOptions = KafkaOptions()
) -> DataFrame:
    """A stream of the files that are in a directory and come into it, oldest first; or of a topic."""
    if is_topic(place):
        return topic_messages(spark, Topic.of(place), kafka)
    reader = spark.readStream.format(format).option("maxFileAge", "36500d")  # Spark's week would leave out old files
    if files_a_batch:
        reader = reader.option("maxFilesPerTrigger", files_a_batch)
    if format == "json":
        reader = reader.schema(f"{SCHEMA}, {UNREADABLE} string").option("columnNameOfCorruptRecord", UNREADABLE)
    else:
        reader = reader.schema(SCHEMA)
    return reader.load(place)


def topic_messages(spark: SparkSession, topic: Topic, options: KafkaOptions) -> DataFrame:
    """The columns of a message, beside them `partition`, `offset` and the `record` itself, for the dead letters.

    As JSON the key of the message is the record's where the JSON has none, and `line` is the value as text.
    With headers, key and payload are the record's key and value as they are, bytes.
    """
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", topic.brokers)
        .option("subscribe", topic.name)
        .option("includeHeaders", True)
        .option("startingOffsets", options.starting_offsets)
        .option("failOnDataLoss", not options.skip_lost)
        .options(**{f"kafka.{name}": value for name, value in options.conf.items()})
    )
    if options.offsets_a_batch:
        reader = reader.option("maxOffsetsPerTrigger", options.offsets_a_batch)
    records = reader.load()
    record = F.struct("key", "value", "headers").alias(RECORD)
    where = [F.col("partition"), F.col("offset"), record]
    if options.format == "headers":
        return records.select(
            header("id").alias("id"),
            "key",
            header("due").try_cast("bigint").alias("due"),
            header("cancel").try_cast("boolean").alias("cancel"),
            F.col("value").alias("payload"),
            *where,
        )
    text = F.make_valid_utf8(F.col("value").cast("string"))
    parsed = records.select(F.from_json(text, SCHEMA).alias("message"), text.alias(UNREADABLE), "key", *where)
    key = F.coalesce("message.key", F.make_valid_utf8(F.col("key").cast("string")))
    return parsed.select(
        "message.id",
        key.alias("key"),
        "message.due",
        "message.cancel",
        "message.payload",
        UNREADABLE,
        "partition",
        "offset",
        RECORD,
    )


def header(name: str) -> Column:
    """The last header of this name as text; null if there is none or it is no UTF-8."""
    found = F.filter("headers", lambda one: one["key"] == name)
    return F.try_validate_utf8(F.get(found, F.size(found) - 1)["value"].cast("string"))
