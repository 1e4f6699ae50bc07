"""A topic of Kafka as a place that messages come from or go to, and what it takes to talk to its brokers."""

import re
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
TARGET = "target"  # the topic that a message names
HEADERS = "carried_headers"
ERRORS_PACKAGE = "org.apache.kafka.common.errors."


@dataclass(frozen=True)
class Topic:
    """A topic by its brokers and its name."""

    brokers: str
    name: str

    @classmethod
    def of(cls, url: str) -> "Topic":
        """Of "kafka://host:port,host:port/name"; ValueError if it is something else.

        >>> Topic.of("kafka://10.0.0.7:9092,10.0.0.8:9092/reminders")
        Topic(brokers='10.0.0.7:9092,10.0.0.8:9092', name='reminders')
        """
        found = URL.fullmatch(url)
        if not found or found["name"] in (".", ".."):
            raise ValueError(f"a topic is {SCHEME}HOST:PORT,HOST:PORT/TOPIC, not {url!r}")
        return cls(found["brokers"], found["name"])

    def __str__(self) -> str:
        return f"{SCHEME}{self.brokers}/{self.name}"


def is_topic(place: str) -> bool:
    """Whether a place is meant as a topic; else it is a directory."""
    return place.startswith("kafka:")


@dataclass(frozen=True)
class KafkaOptions:
    """How topics are read and written.

    `format`: "json", the message as JSON in the value; "headers", id, due and cancel in headers, the payload as value.
    `conf`: settings of Kafka's clients, for the source and the sink. `starting_offsets`: where a new checkpoint begins.
    `skip_lost`: whether to go on where records were deleted before they were read. `topics`: those, beside that of the
    sink, that a message may name as its own; None: it names none. `headers`: whether those of a record go out with its
    message.
    """

    format: str = "json"
    conf: dict[str, str] = field(default_factory=dict)
    starting_offsets: str = "earliest"
    offsets_a_batch: int | None = None
    skip_lost: bool = False
    topics: tuple[str, ...] | None = None
    headers: bool = False

    @property
    def carried(self) -> list[str]:
        """The columns of a message that are carried along for its way out, beside its payload."""
        return [name for name, is_so in {TARGET: self.topics is not None, HEADERS: self.headers}.items() if is_so]


def check_topic(spark: SparkSession, topic: Topic, options: KafkaOptions) -> None:
    """Raises KafkaError where no broker answers, or has no such topic."""
    jvm: Any = spark._jvm
    properties = jvm.java.util.Properties()
    conf = {"default.api.timeout.ms": ANSWER_WITHIN_MS, "request.timeout.ms": ANSWER_WITHIN_MS, **options.conf}
    for name, value in {**conf, "bootstrap.servers": topic.brokers}.items():
        properties.setProperty(name, value)
    names = jvm.java.util.ArrayList()
    names.add(topic.name)
    try:
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
        try:
            admin.describeTopics(names).allTopicNames().get()
        finally:
            admin.close()
    except Py4JJavaError as error:
        raise KafkaError(why(error.java_exception, topic)) from None


def why(error: Any, topic: Topic) -> str:
    """What a Java error says about a topic, as one line for the user."""
    while (cause := error.getCause()) is not None:
        error = cause
    kind = error.getClass().getName().removeprefix(ERRORS_PACKAGE)
    if kind == "UnknownTopicOrPartitionException":
        return f"there is no topic {topic.name} at {topic.brokers}: make it first"
    if kind == "TimeoutException":
        return f"no broker answers at {topic.brokers}"
    return f"{topic}: {' '.join(str(error.getMessage()).split())}"
