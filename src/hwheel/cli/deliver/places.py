"""Where `hwheel deliver` takes from and writes to, and what cannot be."""

import argparse
import os
import posixpath
import re
from dataclasses import dataclass

from pyspark.sql import SparkSession

from hwheel.cli.errors import CommandError
from hwheel.spark.deliver.files import Directory
from hwheel.spark.deliver.topic import KafkaOptions, Topic, check_topic, is_topic
from hwheel.spark.session.connector import KafkaError, check_connector, with_connector

HIDDEN = re.compile(r"\.|_[^=/]*(?:/|$)")  # Spark passes over names that begin so
PATTERN = re.compile(r"[*?\[\]{}\\]")


@dataclass(frozen=True)
class Places:
    """Directories, and topics by their URLs."""

    source: str
    to: str
    dead_letters: str
    checkpoint: str
    headers: bool

    @classmethod
    def of(cls, options: argparse.Namespace) -> "Places":
        """As they were given. Raises CommandError for what cannot be, as far as that shows without looking."""
        dead_letters = options.dead_letters or f"{options.to.rstrip('/')}-dead-letters"
        headers = options.kafka_format == "headers"
        places = cls(options.source, options.to, dead_letters, options.checkpoint, headers)
        for name, place in places.named().items():
            if is_topic(place):
                try:
                    Topic.of(place)
                except ValueError as error:
                    raise CommandError(f"{name}: {error}") from None
        if is_topic(places.checkpoint):
            raise CommandError("--checkpoint: must be a directory, not a topic")
        for name, place in places.named().items():
            if not place.strip():
                raise CommandError(f"{name}: must be a directory or a topic, not nothing")
        check_apart(places.named())
        if headers and is_topic(places.source) and options.format == "json":
            for name in ("--to", "--dead-letters"):
                if not is_topic(places.named()[name]):
                    raise CommandError(
                        f"{name}: with --kafka-format headers a payload is bytes, which JSON lines cannot hold: "
                        "use --format parquet"
                    )
        return places

    def named(self) -> dict[str, str]:
        """By the options that name them."""
        return {
            "--from": self.source,
            "--to": self.to,
            "--dead-letters": self.dead_letters,
            "--checkpoint": self.checkpoint,
        }

    def kind_of_source(self) -> str:
        """What decides how held messages are stored, and how the checkpoint says what was read."""
        if not is_topic(self.source):
            return "files"
        return "a topic with headers" if self.headers else "a topic with JSON"

    def settings(self, settings: dict[str, str]) -> dict[str, str]:
        """The settings of a session that reaches them."""
        return with_connector(settings) if any(map(is_topic, self.named().values())) else settings

    def check(self, spark: SparkSession, kafka: KafkaOptions) -> None:
        """Raises CommandError if something is not there."""
        for name, place in self.named().items():
            if is_topic(place):
                check_connector(spark)
                try:
                    check_topic(spark, Topic.of(place), kafka)
                except KafkaError as error:
                    raise CommandError(f"{name}: {error}") from None
            elif Directory(spark, place).is_file():
                raise CommandError(f"{name}: {place} is a file, and must be a directory")
        if is_topic(self.source):
            return
        source = Directory(spark, self.source)
        if not source.exists():
            raise CommandError(f"--from: there is no directory {self.source}")
        if PATTERN.search(source.url):
            raise CommandError(
                f"--from: Spark takes {source.url} for a pattern, and would read what fits it\n"
                "take a directory without any of * ? [ ] { } \\ in its name and the names above it"
            )


def check_apart(places: dict[str, str]) -> None:
    """Raises CommandError where two are the same, or one would be read as input."""
    found = {name: normal(place) for name, place in places.items()}
    if len({*found.values()}) < len(found):
        raise CommandError("--from, --to, --checkpoint and --dead-letters must be four places")
    source = found.pop("--from").rstrip("/") + "/"
    for name, place in found.items():
        if place.startswith(source) and not HIDDEN.match(place[len(source) :]):
            raise CommandError(
                f"{name}: {places[name]} lies in the directory of --from, and would be read from there\n"
                "take one elsewhere, or one whose name begins with a dot"
            )


def normal(place: str) -> str:
    """The same for the same place."""
    if is_topic(place):
        topic = Topic.of(place)
        return f"kafka:{sorted(topic.brokers.split(','))}:{topic.name}"
    scheme, colon, rest = place.partition(":")
    if not colon or "/" in scheme:
        return os.path.realpath(place)
    return os.path.realpath(rest) if scheme == "file" else f"{scheme}:{posixpath.normpath(rest)}"
