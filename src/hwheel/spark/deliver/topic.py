"""A topic of Kafka as a place that messages come from or go to, and what it takes to talk to its brokers."""

import re
from dataclasses import dataclass, field

SCHEME = "kafka://"
BROKER = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/,\[\]]+):\d{1,5}"
URL = re.compile(rf"{SCHEME}(?P<brokers>{BROKER}(?:,{BROKER})*)/(?P<name>[\w.-]{{1,249}})", re.ASCII)


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
    `skip_lost`: whether to go on where records were deleted before they were read.
    """

    format: str = "json"
    conf: dict[str, str] = field(default_factory=dict)
    starting_offsets: str = "earliest"
    offsets_a_batch: int | None = None
    skip_lost: bool = False
