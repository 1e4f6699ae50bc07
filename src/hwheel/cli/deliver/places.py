"""The places of `hwheel deliver`, and their checks."""

import argparse
import os
import posixpath
import re
from dataclasses import replace

from pyspark.sql import SparkSession

from hwheel.cli.common import CommandError
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.settings import Places
from hwheel.spark.deliver.topic import KafkaOptions, Topic, check_topic, is_topic
from hwheel.spark.session.connector import KafkaError, check_connector, with_connector

HIDDEN = re.compile(r"\.|_[^=/]*(?:/|$)")  # Spark ignores paths in a directory that begin like this
PATTERN = re.compile(r"[*?\[\]{}\\]")


def places_of(options: argparse.Namespace) -> Places:
    """Return the places of a command line. Raise CommandError if they are invalid in any file system."""
    dead_letters = options.dead_letters or f"{options.to.rstrip('/')}-dead-letters"
    places = Places(options.source, options.to, dead_letters, options.checkpoint, archive_of(options))
    check_kinds(by_option(places))
    check_apart(by_option(places))
    if options.kafka_format == "headers" and is_topic(places.source) and options.format != "parquet":
        for name in ("--to", "--dead-letters"):
            if not is_topic(by_option(places)[name]):
                raise CommandError(
                    f"{name}: with --kafka-format headers, a payload is bytes, which JSON lines cannot hold: "
                    "use --format parquet"
                )
    return places


def by_option(places: Places) -> dict[str, str]:
    """Return the places by their options."""
    return {
        "--from": places.source,
        "--to": places.to,
        "--dead-letters": places.dead_letters,
        "--checkpoint": places.checkpoint,
    } | ({} if places.archive is None else {"--archive": places.archive})


def source_kind(places: Places, kafka: KafkaOptions) -> str:
    """Return the kind of the source, which decides the form of the state and of the source's log."""
    if not is_topic(places.source):
        return "files"
    return "a topic with headers" if kafka.format == "headers" else "a topic with JSON"


def session_conf(places: Places, conf: dict[str, str]) -> dict[str, str]:
    """Return the settings of a session, with the Kafka connector if a place is a topic."""
    return with_connector(conf) if any(map(is_topic, by_option(places).values())) else conf


def archive_of(options: argparse.Namespace) -> str | None:
    """Return the directory for input files that were read. Raise CommandError if the options contradict each other."""
    archive: str | None = options.archive
    if (archive is not None) != (options.clean_source == "archive"):
        raise CommandError("--clean-source archive and --archive DIR go together: give both, or neither")
    if options.clean_source is not None and is_topic(options.source):
        raise CommandError("--clean-source is for files; for a topic, set its retention (retention.ms)")
    if options.moved_from is not None and is_topic(options.source):
        raise CommandError("--moved-from is for directories, not for topics")
    if options.forget_files is not None and options.clean_source is None:
        raise CommandError("--forget-files needs --clean-source, so that the files in the input are those not yet read")
    return archive


def check_kinds(places: dict[str, str]) -> None:
    """Raise CommandError for an empty place, a malformed topic, or a topic where a directory is needed."""
    for name, place in places.items():
        if is_topic(place):
            try:
                Topic.of(place)
            except ValueError as error:
                raise CommandError(f"{name}: {error}") from None
    for name in ("--checkpoint", "--archive"):
        if is_topic(places.get(name, "")):
            raise CommandError(f"{name}: must be a directory, not a topic")
    for name, place in places.items():
        if not place.strip():
            raise CommandError(f"{name}: must be a directory or a topic, not empty")


def check_apart(places: dict[str, str]) -> None:
    """Raise CommandError if two places are equal, or if one is inside the input directory."""
    found = {name: normal(place) for name, place in places.items()}
    if len({*found.values()}) < len(found):
        *names, last = found
        raise CommandError(f"{', '.join(names)} and {last} must be {len(found)} different places")
    source = found.pop("--from").rstrip("/") + "/"
    for name, place in found.items():
        if place.startswith(source) and not HIDDEN.match(place[len(source) :]):
            raise CommandError(
                f"{name}: {places[name]} is inside the directory of --from, so its files would be read as input\n"
                "use another directory, or one whose name begins with a dot"
            )


def normal(place: str) -> str:
    """Return a form of a place that is the same for equal places."""
    if is_topic(place):
        topic = Topic.of(place)
        return f"kafka:{sorted(topic.brokers.split(','))}:{topic.name}"
    scheme, colon, rest = place.partition(":")
    if not colon or "/" in scheme:
        return os.path.realpath(place)
    return os.path.realpath(rest) if scheme == "file" else f"{scheme}:{posixpath.normpath(rest)}"


def check_exist(places: Places, spark: SparkSession, kafka: KafkaOptions) -> None:
    """Raise CommandError if the input or a topic does not exist, or if a directory is a file."""
    for name, place in by_option(places).items():
        if is_topic(place):
            check_connector(spark)
            if kafka.exactly_once:
                from hwheel.spark.deliver.transactions import check_producer  # needs confluent_kafka

                check_producer(kafka.producer_conf)
            topic = Topic.of(place)
            others = kafka.topics or () if name == "--to" else ()
            try:
                for topic_name in dict.fromkeys([topic.name, *others]):
                    check_topic(spark, replace(topic, name=topic_name), kafka)
            except KafkaError as error:
                raise CommandError(f"{name}: {error}") from None
        elif Directory(spark, place).is_file():
            raise CommandError(f"{name}: {place} is a file, but must be a directory")
    if is_topic(places.source):
        return
    source = Directory(spark, places.source)
    if not source.exists():
        raise CommandError(f"--from: the directory {places.source} does not exist")
    if PATTERN.search(source.url):
        raise CommandError(
            f"--from: Spark takes {source.url} for a pattern, and would read all that matches\n"
            "use a directory whose path has none of * ? [ ] { } \\"
        )
