"""The options of `hwheel deliver` that are about topics."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwheel.cli.common import CommandError, settings_of, whole_number

if TYPE_CHECKING:
    from hwheel.spark.deliver.topic import KafkaOptions


def add_to(parser: argparse.ArgumentParser) -> None:
    """Adds them in a group of their own."""
    kafka: Any = parser.add_argument_group("Kafka")
    kafka.add_argument(
        "--kafka-format",
        choices=["json", "headers"],
        default="json",
        help="messages in topics: JSON in the value, or id, due and cancel in headers and the payload as the value "
        "(default: %(default)s)",
    )
    kafka.add_argument(
        "--starting-offsets",
        choices=["earliest", "latest"],
        default="earliest",
        help="where a new checkpoint begins to read (default: %(default)s)",
    )
    kafka.add_argument("--offsets-a-batch", metavar="N", type=whole_number(1), help="records at one look, at most")
    kafka.add_argument(
        "--skip-lost-offsets",
        action="store_true",
        help="go on when the topic no longer has what comes next, since its retention was over (default: stop)",
    )
    kafka.add_argument(
        "--to-topics",
        metavar="NAME,NAME",
        help="the topics, at the brokers of --to, that a message may name in its field or header `topic`; one that "
        "names none goes to that of --to. Stays as it is for the life of a checkpoint",
    )
    kafka.add_argument(
        "--carry-headers",
        action="store_true",
        help="the headers of a record go out with its message. Stays as it is for the life of a checkpoint",
    )
    kafka.add_argument(
        "--kafka-conf",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting of Kafka's clients, like security.protocol=SASL_SSL; may be repeated",
    )
    kafka.add_argument("--kafka-conf-file", metavar="FILE", help="such settings, one a line: passwords belong there")


def kafka_of(options: argparse.Namespace) -> "KafkaOptions":
    """What was said about topics. Raises CommandError."""
    from hwheel.spark.deliver.topic import KafkaOptions

    conf: dict[str, str] = {}
    if options.kafka_conf_file is not None:
        conf |= conf_file(options.kafka_conf_file)
    conf |= settings_of(options.kafka_conf, "--kafka-conf")
    return KafkaOptions(
        options.kafka_format,
        conf,
        options.starting_offsets,
        options.offsets_a_batch,
        options.skip_lost_offsets,
        topics_of(options),
        options.carry_headers,
    )


def topics_of(options: argparse.Namespace) -> tuple[str, ...] | None:
    """Those of --to-topics. Raises CommandError where it or --carry-headers goes with places that have none."""
    from hwheel.spark.deliver.topic import NAME, Topic, is_topic

    if options.carry_headers and not (is_topic(options.source) and is_topic(options.to)):
        raise CommandError("--carry-headers is for records: --from and --to must be topics")
    if options.to_topics is None:
        return None
    if not is_topic(options.to):
        raise CommandError("--to-topics is for records: --to must be a topic")
    if not is_topic(options.source) and options.format != "json":
        raise CommandError("--to-topics: a message in Parquet has no field for its topic")
    names = tuple(name.strip() for name in options.to_topics.split(","))
    for name in names:
        if not NAME.fullmatch(name) or name in (".", ".."):
            raise CommandError(f"--to-topics must be names of topics with commas between them, not {name!r}")
    if (to := Topic.of(options.to)).name not in names:
        names = (*names, to.name)
    return names


def conf_file(path: str) -> dict[str, str]:
    """A properties file as Kafka's own tools take it. What stands in it is not shown."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--kafka-conf-file: {path} cannot be read: {error}") from None
    conf = {}
    for line in text.replace("\\\n", " ").splitlines():
        name, equals, value = line.partition("=")
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        if not equals:
            raise CommandError(f"--kafka-conf-file: {path} must have lines NAME=VALUE")
        conf[name.strip()] = value.strip()
    return conf
