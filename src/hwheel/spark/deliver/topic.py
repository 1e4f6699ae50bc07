"""Kafka topics as places, and the options of Kafka's clients."""

import re
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from hwheel.spark.session.connector import KafkaError

SCHEME = "kafka://"
BROKER = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/,\[\]]+):\d{1,5}"
NAME = re.compile(r"[\w.-]{1,249}", re.ASCII)
URL = re.compile(rf"{SCHEME}(?P<brokers>{BROKER}(?:,{BROKER})*)/(?P<name>[\w.-]{{1,249}})", re.ASCII)
ANSWER_WITHIN_MS = "20000"
TARGET = "target"  # the column with the topic that a message names
HEADERS = "carried_headers"
PRODUCER = "producer."
ERRORS_PACKAGE = "org.apache.kafka.common.errors."


@dataclass(frozen=True)
class Topic:
    """A topic by its brokers and its name."""

    brokers: str
    name: str

    @classmethod
    def of(cls, url: str) -> "Topic":
        """Parse the URL of a topic.

        >>> Topic.of("kafka://10.0.0.7:9092,10.0.0.8:9092/reminders")
        Topic(brokers='10.0.0.7:9092,10.0.0.8:9092', name='reminders')

        Raises:
            ValueError: The URL has another form.
        """
        found = URL.fullmatch(url)
        if not found or found["name"] in (".", ".."):
            raise ValueError(f"a topic is {SCHEME}HOST:PORT,HOST:PORT/TOPIC, not {url!r}")
        return cls(found["brokers"], found["name"])

    def __str__(self) -> str:
        return f"{SCHEME}{self.brokers}/{self.name}"


def is_topic(place: str) -> bool:
    """Return True if a place is a topic rather than a directory."""
    return place.startswith("kafka:")


@dataclass(frozen=True)
class KafkaOptions:
    """The options for reading and writing topics.

    Args:
        format: "json": the value of a record is the message as JSON. "headers": id, due, and cancel are headers, and
            the value is the payload.
        conf: Settings of Kafka's clients, for reading and writing. Those of the producer for exactly_once are settings
            of librdkafka, with the prefix PRODUCER.
        starting_offsets: Where a new checkpoint starts to read: "earliest" or "latest".
        offsets_a_batch: The maximum number of records in a batch.
        skip_lost: Whether to continue if records were deleted before they were read.
        topics: The topics that a message may name as its destination. None: messages name no topic.
        carry_headers: Whether a message keeps the headers of its record.
        exactly_once: Whether to write in transactions.
    """

    format: str = "json"
    conf: dict[str, str] = field(default_factory=dict)
    starting_offsets: str = "earliest"
    offsets_a_batch: int | None = None
    skip_lost: bool = False
    topics: tuple[str, ...] | None = None
    carry_headers: bool = False
    exactly_once: bool = False

    @property
    def java_conf(self) -> dict[str, str]:
        """The settings of Java's clients."""
        return {name: value for name, value in self.conf.items() if not name.startswith(PRODUCER)}

    @property
    def producer_conf(self) -> dict[str, str]:
        """The settings of the producer for exactly_once."""
        return {name.removeprefix(PRODUCER): one for name, one in self.conf.items() if name.startswith(PRODUCER)}

    @property
    def carried(self) -> list[str]:
        """The columns that the state keeps beside the payload, for the record to write."""
        return [
            name for name, wanted in {TARGET: self.topics is not None, HEADERS: self.carry_headers}.items() if wanted
        ]


class TopicClient:
    """Asks the brokers about a topic, with Java's client."""

    def __init__(self, spark: SparkSession, topic: Topic, options: KafkaOptions) -> None:
        jvm: Any = spark._jvm
        properties = jvm.java.util.Properties()
        conf = {"default.api.timeout.ms": ANSWER_WITHIN_MS, "request.timeout.ms": ANSWER_WITHIN_MS, **options.java_conf}
        for name, value in {**conf, "bootstrap.servers": topic.brokers}.items():
            properties.setProperty(name, value)
        self._jvm = jvm
        self._topic = topic
        self._names = jvm.java.util.ArrayList()
        self._names.add(topic.name)
        self._ends = jvm.java.util.HashMap()  # what look() asks for: the latest offset of each partition
        self._admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)

    def partitions(self) -> Any:
        """Return Java's list of partitions. Raise Py4JJavaError if no broker answers or the topic does not exist."""
        return self._admin.describeTopics(self._names).allTopicNames().get().get(self._topic.name).partitions()

    def look(self) -> object:
        """Return the end offsets of all partitions. After an error, return an object that equals no other."""
        try:
            partitions = self.partitions()
            if partitions.size() != self._ends.size():
                for described in partitions:
                    partition = self._jvm.org.apache.kafka.common.TopicPartition(
                        self._topic.name, described.partition()
                    )
                    self._ends.put(partition, self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest())
            return self._admin.listOffsets(self._ends).all().get().toString()
        except Py4JJavaError:
            return object()

    def close(self) -> None:
        self._admin.close()


def check_topic(spark: SparkSession, topic: Topic, options: KafkaOptions) -> None:
    """Raise KafkaError if no broker answers or if the topic does not exist."""
    try:
        with closing(TopicClient(spark, topic, options)) as client:
            client.partitions()
    except Py4JJavaError as error:
        raise KafkaError(topic_fault(error.java_exception, topic)) from None


def topic_fault(error: Any, topic: Topic) -> str:
    """Describe a Java exception about a topic on one line."""
    while (cause := error.getCause()) is not None:
        error = cause
    kind = error.getClass().getName().removeprefix(ERRORS_PACKAGE)
    if kind == "UnknownTopicOrPartitionException":
        return f"the topic {topic.name} does not exist at {topic.brokers}: create it first"
    if kind == "TimeoutException":
        return f"no broker answers at {topic.brokers}"
    return f"{topic}: {' '.join(str(error.getMessage()).split())}"
