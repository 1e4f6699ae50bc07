"""`hwheel deliver`'s job: messages in from files or a topic, what is due out into files or a topic."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from hwheel.spark.deliver.directory_sink import DirectorySink
from hwheel.spark.deliver.files import Directory
from hwheel.spark.deliver.options import WheelOptions
from hwheel.spark.deliver.sink import Sink
from hwheel.spark.deliver.source import RECORD, UNREADABLE, Source
from hwheel.spark.deliver.topic import KafkaOptions, Topic, is_topic
from hwheel.spark.deliver.topic_sink import TopicSink, dead_records, header_records, json_records
from hwheel.spark.durations import duration_ms
from hwheel.spark.hold import dead_letters, hold_until_due

NAMES = {"id": "id", "key": "key", "due": "due", "unreadable": UNREADABLE}
MESSAGES, DEAD_LETTERS = "messages", "dead-letters"  # the two queries' checkpoints, in the command's
DEAD_LETTERS_EVERY = "1 minute"  # beside a batch of messages, one of these makes that late
WORKER_LATE = "Python worker failed to connect back"
STARTS = 10


@dataclass
class Delivery:
    """The two queries of a delivery while they run, each with the sink that counts what it writes."""

    messages: StreamingQuery
    dead: StreamingQuery
    sink: Sink
    dead_sink: Sink
    start_again: dict[str, Callable[[], StreamingQuery]]
    starts_left: int = STARTS

    def tend(self) -> None:
        """Starts a query again that has ended because a Python worker was too slow to start. Spark gives it ten
        seconds, which is little on a busy machine; some such ends are no reason to give up.
        """
        for name, start in self.start_again.items():
            query = getattr(self, name)
            if self.starts_left and not query.isActive and WORKER_LATE in str(query.exception()):
                self.starts_left -= 1
                setattr(self, name, start())

    def stop(self) -> None:
        """Ends both queries. A batch that is cut off is run again at the next start."""
        self.messages.stop()
        self.dead.stop()

    def error(self) -> str | None:
        """Why a query has ended, if one has."""
        for query in (self.messages, self.dead):
            if not query.isActive:
                return str(query.exception() or "a query has ended by itself")
        return None


def start_delivery(
    source: Source,
    to: str,
    dead_to: str,
    format: str,
    checkpoint: str,
    options: WheelOptions,
    trigger: str,
    kafka: KafkaOptions = KafkaOptions(),
    dead_letters_every: str = DEAD_LETTERS_EVERY,
) -> Delivery:
    """Starts the queries. `to` and `dead_to` are directories, or topics as kafka://BROKERS/TOPIC."""
    duration_ms(dead_letters_every, "dead_letters_every")
    spark = source.spark
    spark.conf.set("spark.sql.shuffle.partitions", options.partitions)
    held = source.messages().transform(
        hold_until_due,
        **NAMES,
        cancel="cancel",
        payload="payload",
        tick=options.tick,
        wheel_size=options.wheel_size,
        shards=options.shards,
        dedup=options.dedup,
    )
    dead = letters(source.all_rows())
    sink = sink_at(spark, to, format, kafka, header_records if kafka.format == "headers" else json_records)
    # Which task reads which malformed rows depends on the cores of this start.
    dead_sink = sink_at(spark, dead_to, format, kafka, dead_records, one_file=True)
    if not is_topic(dead_to):
        dead = dead.drop(RECORD)
    start: dict[str, Callable[[], StreamingQuery]] = {
        "messages": partial(started, held, sink, f"{checkpoint}/{MESSAGES}", trigger),
        "dead": partial(started, dead, dead_sink, f"{checkpoint}/{DEAD_LETTERS}", dead_letters_every),
    }
    return Delivery(start["messages"](), start["dead"](), sink, dead_sink, start)


def letters(rows: DataFrame) -> DataFrame:
    """The malformed rows, each with the reason that its reader gave, or that its columns give."""
    found = rows.transform(dead_letters, **NAMES)
    return found.withColumn("reason", F.coalesce(UNREADABLE, "reason")).drop(UNREADABLE)


def sink_at(
    spark: SparkSession,
    place: str,
    format: str,
    kafka: KafkaOptions,
    records: Callable[[DataFrame], DataFrame],
    one_file: bool = False,
) -> Sink:
    """A topic, which gets records, or a directory, which is made."""
    if is_topic(place):
        return TopicSink(topic=Topic.of(place), options=kafka, records=records)
    Directory(spark, place).make()
    return DirectorySink(place, format, one_file)


def started(frame: DataFrame, sink: Sink, checkpoint: str, trigger: str) -> StreamingQuery:
    """A query into a sink."""
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    return writer.trigger(processingTime=f"{duration_ms(trigger, 'trigger')} milliseconds").start()
