"""Where `hwheel deliver` takes from and writes to, and what cannot be."""

import argparse
import os
import posixpath
import re
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from hwheel.cli.common import CommandError
from hwheel.spark.deliver.directory import Directory
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
    archive: str | None = None

    @classmethod
    def of(cls, options: argparse.Namespace) -> "Places":
        """As they were given. Raises CommandError for what cannot be, as far as that shows without looking."""
        dead_letters = options.dead_letters or f"{options.to.rstrip('/')}-dead-letters"
        headers = options.kafka_format == "headers"
        places = cls(options.source, options.to, dead_letters, options.checkpoint, headers, archive_of(options))
        for name, place in places.named().items():
            if is_topic(place):
                try:
                    Topic.of(place)
                except ValueError as error:
                    raise CommandError(f"{name}: {error}") from None
        for name in ("--checkpoint", "--archive"):
            if is_topic(places.named().get(name, "")):
                raise CommandError(f"{name}: must be a directory, not a topic")
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
        } | ({} if self.archive is None else {"--archive": self.archive})

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
                topic = Topic.of(place)
                others = kafka.topics or () if name == "--to" else ()
                try:
                    for one in dict.fromkeys([topic.name, *others]):
                        check_topic(spark, replace(topic, name=one), kafka)
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


def archive_of(options: argparse.Namespace) -> str | None:
    """Where input files go that were read, if they go anywhere. Raises CommandError."""
    archive: str | None = options.archive
    if (archive is not None) != (options.clean_source == "archive"):
        raise CommandError("--clean-source archive and --archive DIR go together: give both, or neither")
    if options.clean_source is not None and is_topic(options.source):
        raise CommandError("--clean-source is for files: what a topic keeps is its own to say (retention.ms)")
    if options.forget_files is not None and options.clean_source is None:
        raise CommandError("--forget-files needs --clean-source: what is left in the directory tells what was not read")
    return archive


def check_apart(places: dict[str, str]) -> None:
    """Raises CommandError where two are the same, or one would be read as input."""
    found = {name: normal(place) for name, place in places.items()}
    if len({*found.values()}) < len(found):
        *names, last = found
        count = {4: "four", 5: "five"}[len(found)]
        raise CommandError(f"{', '.join(names)} and {last} must be {count} places")
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
