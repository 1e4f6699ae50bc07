"""The command line of `hwheel deliver`: its parser, and the settings of Kafka."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hwheel.cli.common import MAX_WHEEL_SIZE, CommandError, add_spark_options, settings_of, size, whole_number
from hwheel_core import DEFAULT_WHEEL_SIZE

if TYPE_CHECKING:
    from hwheel.spark.deliver.topic import KafkaOptions

KEPT = ("tick", "wheel_size", "shards", "partitions", "dedup", "due_unit", "by_id")  # stored in the checkpoint
DURATIONS = ("tick", "dedup", "trigger", "dead_letters_every", "forget_files", "max_lateness")

DESCRIPTION = """\
Read messages from the files of a directory or from a Kafka topic, hold them
durably, and write each to another directory or topic when it is due: once,
never early, and in order for each key. Pending messages survive a crash: start
the command again with the same checkpoint. Runs on Spark with the cores of
this machine; needs Java 17 or later.
"""

EPILOG = """\
A message is a line of JSON, a row of Parquet with these columns, or a record
whose value is this JSON. due is in epoch milliseconds.
  {"id": "m1", "key": "user-7", "due": 1795176000000, "payload": "..."}

A cancel has the id, key, and due of its message, and may arrive before it:
  {"id": "m1", "key": "user-7", "due": 1795176000000, "cancel": true}

id and key are strings or numbers, due is a whole number, cancel is true or
false, and payload is any value. A message that is sent again with equal id,
key, and due counts once. All other lines are dead letters, with the reason.

With --by-id, a cancel needs no due, and a message may replace the earlier ones
with its id and key:
  {"id": "m1", "key": "user-7", "cancel": true}
  {"id": "m1", "key": "user-7", "due": 1795179600000, "replace": true}

examples:
  hwheel deliver --from in --to out --checkpoint state
  hwheel deliver --from in --to out --checkpoint state --tick 100ms \\
      --trigger 200ms
  hwheel deliver --from in --to out --checkpoint state \\
      --clean-source delete --metrics-port 9464
  hwheel deliver --from kafka://127.0.0.1:9092/later \\
      --to kafka://127.0.0.1:9092/now --checkpoint state
  hwheel pending --checkpoint state           the pending messages
  hwheel pending --checkpoint state --last    the last count of the job
  spark-submit --master yarn \\
      $(python -c 'import hwheel.__main__ as m; print(m.__file__)') deliver \\
      --from hdfs:///in --to hdfs:///out --checkpoint hdfs:///state

Move files into the input directory; do not write them there. A file is read
once, as soon as it appears. Names that begin with a dot or an underscore are
ignored. Output files get each message once, and so do the consumers of an
output topic with --exactly-once. Without it, a batch that a crash interrupts is
sent again, in order, so a consumer must drop messages whose headers id and due
it has seen. Ctrl-C or SIGTERM stops the command, and nothing is lost.
"""


# --- the parser -------------------------------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `hwheel deliver`."""
    add_places(parser.add_argument)
    add_cleaning(parser.add_argument_group("input files that were read").add_argument)
    add = parser.add_argument_group("monitoring").add_argument
    text = "serve metrics for Prometheus and /health at this port, or with 0 at any free port; needs the extra metrics"
    add("--metrics-port", metavar="PORT", type=whole_number(0, 65535), help=text)
    text = "the address to serve at (default: %(default)s)"
    add("--metrics-host", metavar="HOST", default="127.0.0.1", help=text)
    text = (
        "keep an index of held messages beside the state, for `hwheel pending --id`, `--key`, and `--by-hour` in less "
        "than a second; needs a checkpoint in a local or mounted directory (default: as before, at first no)"
    )
    add("--index", action=argparse.BooleanOptionalAction, help=text)
    add_kafka(parser.add_argument_group("Kafka").add_argument)
    add_kept(parser.add_argument_group("stored in the checkpoint, for its life").add_argument)
    add_spark_options(parser.add_argument_group("Spark").add_argument)


def add_places(add: Callable[..., object]) -> None:
    text = "the input: a directory, or kafka://HOST:PORT,HOST:PORT/TOPIC"
    add("--from", dest="source", metavar="PLACE", required=True, help=text)
    add("--to", metavar="PLACE", required=True, help="the output for due messages")
    add("--checkpoint", metavar="DIR", required=True, help="the directory for pending messages")
    add("--dead-letters", metavar="PLACE", help="the output for malformed rows (default: TO-dead-letters)")
    text = "interval between reads of malformed rows, which delay due messages (default: %(default)s)"
    add("--dead-letters-every", metavar="TIME", default="5 seconds", help=text)
    add("--trigger", metavar="TIME", default="1 second", help="interval between batches (default: %(default)s)")
    text = "larger messages are dead letters (default: %(default)s, which fits the default limits of Kafka)"
    add("--largest-message", metavar="SIZE", type=size, default="1MB", help=text)
    text = "limit of how late a message may be when its batch starts, for example after an outage (default: none)"
    add("--max-lateness", metavar="TIME", help=text)
    text = "later messages are dead letters, or all are delivered with a mark `late` (default: %(default)s)"
    add("--too-late", choices=["dead-letters", "mark"], default="dead-letters", help=text)
    text = "maximum number of delivered messages a second, for bursts (default: no limit)"
    add("--rate", metavar="N", type=whole_number(1), help=text)
    add("--files-a-batch", metavar="N", type=whole_number(1), help="maximum number of files in a batch")


def add_cleaning(add: Callable[..., object]) -> None:
    text = "move them to --archive, or delete them (default: keep)"
    add("--clean-source", choices=["archive", "delete"], help=text)
    add("--archive", metavar="DIR", help="a directory on the same file system")
    text = (
        "with --clean-source: forget the names of files that are older than the newest file by this time, which bounds "
        "memory, and ignore new files that are older (default: never)"
    )
    add("--forget-files", metavar="TIME", help=text)


def add_kept(add: Callable[..., object]) -> None:
    add("--format", choices=["json", "parquet"], help="format of all files (default: json)")
    add("--moved-from", metavar="DIR", help="the former name of the directory of --from, whose files count as read")
    add("--tick", metavar="TIME", help="resolution of due times (default: 1 second)")
    text = f"buckets in each level (default: {DEFAULT_WHEEL_SIZE})"
    add("--wheel-size", metavar="N", type=whole_number(2, MAX_WHEEL_SIZE), help=text)
    shards = whole_number(1, 4096)
    add("--shards", metavar="N", type=shards, help="number of wheels (default: one for each partition)")
    add("--partitions", metavar="N", type=shards, help="partitions of the state (default: the cores)")
    add("--dedup", metavar="TIME", help="how long delivered messages are remembered (default: 10 minutes)")
    text = "unit of due in the input: milliseconds or seconds since 1970 (default: ms). The output has milliseconds"
    add("--due-unit", choices=["ms", "s"], help=text)
    text = (
        "keep an index, so that a cancel needs no due, and a message can replace those with its id and key "
        "(default: no)"
    )
    add("--by-id", action=argparse.BooleanOptionalAction, help=text)


# --- Kafka ------------------------------------------------------------------------------------------------------------


def add_kafka(add: Callable[..., object]) -> None:
    text = (
        "format of records: JSON in the value, or id, due, and cancel as headers and the payload as the value "
        "(default: %(default)s)"
    )
    add("--kafka-format", choices=["json", "headers"], default="json", help=text)
    text = "where a new checkpoint starts to read (default: %(default)s)"
    add("--starting-offsets", choices=["earliest", "latest"], default="earliest", help=text)
    add("--offsets-a-batch", metavar="N", type=whole_number(1), help="maximum number of records in a batch")
    text = "continue if the topic no longer has the next records, because their retention ended (default: stop)"
    add("--skip-lost-offsets", action="store_true", help=text)
    text = (
        "topics at the brokers of --to that a message may name in its field or header `topic`. The default of a "
        "message is the topic of --to. Must not change during the life of a checkpoint"
    )
    add("--to-topics", metavar="NAME,NAME", help=text)
    text = "write the headers of a record with its message. Must not change during the life of a checkpoint"
    add("--carry-headers", action="store_true", help=text)
    text = (
        "write to topics in transactions, so that consumers with isolation.level=read_committed get each message once; "
        "needs the extra kafka. Its settings have the prefix `producer.` in --kafka-conf"
    )
    add("--exactly-once", action="store_true", help=text)
    text = "a setting of Kafka's clients, like security.protocol=SASL_SSL; may be repeated"
    add("--kafka-conf", metavar="NAME=VALUE", action="append", default=[], help=text)
    text = "a file of such settings, one on each line; use it for passwords"
    add("--kafka-conf-file", metavar="FILE", help=text)


def kafka_of(options: argparse.Namespace) -> "KafkaOptions":
    """Return the settings of topics. Raise CommandError if they are invalid."""
    from hwheel.spark.deliver.topic import KafkaOptions, is_topic

    if options.exactly_once and not is_topic(options.to):
        raise CommandError("--exactly-once is for topics: files get each message exactly once without it")
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
        options.exactly_once,
    )


def topics_of(options: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the topics of --to-topics. Raise CommandError if the places do not fit."""
    from hwheel.spark.deliver.topic import NAME, Topic, is_topic

    if options.carry_headers and not (is_topic(options.source) and is_topic(options.to)):
        raise CommandError("--carry-headers is for records: --from and --to must be topics")
    if options.to_topics is None:
        return None
    if not is_topic(options.to):
        raise CommandError("--to-topics is for records: --to must be a topic")
    if not is_topic(options.source) and options.format == "parquet":
        raise CommandError("--to-topics: a message in Parquet has no field for its topic")
    names = tuple(name.strip() for name in options.to_topics.split(","))
    for name in names:
        if not NAME.fullmatch(name) or name in (".", ".."):
            raise CommandError(f"--to-topics must be names of topics, separated by commas, not {name!r}")
    if (to := Topic.of(options.to)).name not in names:
        names = (*names, to.name)
    return names


def conf_file(path: str) -> dict[str, str]:
    """Read a properties file in the format of Kafka's tools. No error message shows its content."""
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


def check_durations(options: argparse.Namespace) -> None:
    """Raise CommandError for an invalid duration, before anything is started or written."""
    from hwheel.spark.deliver.settings import LONGEST_MS
    from hwheel.spark.durations import duration_ms

    for name in DURATIONS:
        if (given := getattr(options, name)) is not None:
            option = f"--{name.replace('_', '-')}"
            try:
                length_ms = duration_ms(given, option)
            except ValueError as error:
                raise CommandError(str(error)) from None
            if length_ms > LONGEST_MS:
                raise CommandError(f"{option} must be at most a million days, not {given!r}")
            if name == "tick" and not length_ms:
                raise CommandError(f"{option} must be at least 1ms, not {given!r}")
