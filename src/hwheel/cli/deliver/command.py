"""`hwheel deliver`: messages in files or a topic are held until they are due, durably, on Spark."""

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from hwheel.cli.common import WHEEL_SIZE_MOST, CommandError, add_subcommand, settings_of, spark_errors, whole_number
from hwheel.cli.deliver import arguments
from hwheel.cli.deliver.counts import LAST_COUNT, Counts, Progress
from hwheel.extras import require
from hwheel_core import DEFAULT_WHEEL_SIZE

if TYPE_CHECKING:
    from hwheel.cli.deliver.metrics import Server
    from hwheel.spark.deliver.delivery import Delivery
    from hwheel.spark.deliver.directory import Directory

JAVA_FIRST_S = 2.0
KEPT = ("tick", "wheel_size", "shards", "partitions", "dedup", "due_unit", "by_id")  # for the life of a checkpoint

DESCRIPTION = """\
Takes messages from the files of a directory, and those that come into it, or from a topic of Kafka, and writes each
to another directory or topic when it is due: once, never early, those of one key in order. What is held survives a
crash and a kill: start the command again with the same checkpoint. Runs on Spark, here on this machine's cores; needs
Java 17 or later.
"""

EPILOG = """\
a message is a line of JSON, or a row of Parquet with these columns, or a record with this JSON as its value:
  {"id": "m1", "key": "user-7", "due": 1795176000000, "payload": "..."}       due in epoch milliseconds
  {"id": "m1", "key": "user-7", "due": 1795176000000, "cancel": true}         takes m1 back, whichever comes first

  id and key are strings (or numbers), due is a whole number, cancel true or false, payload anything; a cancel, and a
  message that is sent again, have the id, key and due of the message. Other lines are dead letters, with the reason.

with --by-id a cancel needs no due, and a message may stand in for those of its id and key that came before it:
  {"id": "m1", "key": "user-7", "cancel": true}
  {"id": "m1", "key": "user-7", "due": 1795179600000, "replace": true, "payload": "..."}

examples:
  hwheel deliver --from in --to out --checkpoint state
  hwheel deliver --from in --to out --checkpoint state --tick 100ms --trigger 200ms
  hwheel deliver --from in --to out --checkpoint state --clean-source delete --metrics-port 9464
  hwheel deliver --from kafka://127.0.0.1:9092/later --to kafka://127.0.0.1:9092/now --checkpoint state
  hwheel pending --checkpoint state                       what it holds, while it runs
  hwheel pending --checkpoint state --last                at once: what the job itself counted last
  spark-submit --master yarn $(python -c 'import hwheel.__main__ as m; print(m.__file__)') deliver \\
      --from hdfs:///in --to hdfs:///out --checkpoint hdfs:///state

Move files into the input directory, do not write them there: a file is read once, as soon as it is seen. Names that
begin with a dot or an underscore are not read. Files get each message once. A topic gets it at least once: a batch that
a crash cuts off is sent again, in order, and a consumer that drops what it has seen, by the headers id and due, has it
once. Ctrl-C or SIGTERM stops it, and nothing is lost by it.
"""


def add_to(commands: Any) -> None:
    """Adds `deliver` to the subcommands."""
    parser = add_subcommand(
        commands,
        "deliver",
        help="hold messages until they are due, on Spark",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="PLACE",
        required=True,
        help="where messages come in: a directory, or kafka://HOST:PORT,HOST:PORT/TOPIC",
    )
    parser.add_argument("--to", metavar="PLACE", required=True, help="where they go when they are due")
    parser.add_argument("--checkpoint", metavar="DIR", required=True, help="where they are held in the meantime")
    parser.add_argument(
        "--dead-letters", metavar="PLACE", help="where malformed rows go, with the reason (default: TO-dead-letters)"
    )
    parser.add_argument(
        "--dead-letters-every",
        metavar="TIME",
        default="5 seconds",
        help="time between two looks for malformed rows; what is due waits for them (default: %(default)s)",
    )
    parser.add_argument("--format", choices=["json", "parquet"], default="json", help="of all files (default: json)")
    parser.add_argument(
        "--trigger", metavar="TIME", default="1 second", help="time between two looks (default: %(default)s)"
    )
    parser.add_argument("--files-a-batch", metavar="N", type=whole_number(1), help="files at one look, at most")
    cleaning = parser.add_argument_group("input files that were read")
    cleaning.add_argument(
        "--clean-source", choices=["archive", "delete"], help="move them into --archive, or delete them (default: stay)"
    )
    cleaning.add_argument("--archive", metavar="DIR", help="a directory on the same file system")
    cleaning.add_argument(
        "--forget-files",
        metavar="TIME",
        help="with --clean-source: remember the name of a file for as long as its time of change is no further behind "
        "that of the newest, which bounds memory; a file that comes later than that is not read (default: for good)",
    )
    watching = parser.add_argument_group("to watch")
    watching.add_argument(
        "--metrics-port",
        metavar="PORT",
        type=whole_number(0, 65535),
        help="serve counts for Prometheus at this port, 0: any that is free; needs the extra metrics",
    )
    watching.add_argument(
        "--metrics-host", metavar="HOST", default="127.0.0.1", help="and at this address (default: %(default)s)"
    )
    arguments.add_to(parser)
    kept = parser.add_argument_group("kept with the checkpoint, for its life")
    kept.add_argument("--tick", metavar="TIME", help="how finely due times are told apart (default: 1 second)")
    kept.add_argument(
        "--wheel-size",
        metavar="N",
        type=whole_number(2, WHEEL_SIZE_MOST),
        help=f"buckets a level (default: {DEFAULT_WHEEL_SIZE})",
    )
    kept.add_argument("--shards", metavar="N", type=whole_number(1, 4096), help="wheels (default: one a partition)")
    kept.add_argument("--partitions", metavar="N", type=whole_number(1, 4096), help="of the state (default: the cores)")
    kept.add_argument("--dedup", metavar="TIME", help="how long what went out is known (default: 10 minutes)")
    kept.add_argument(
        "--due-unit",
        choices=["ms", "s"],
        help="of due in what comes in: milliseconds or seconds since 1970 (default: ms). It goes out in milliseconds",
    )
    kept.add_argument(
        "--by-id",
        action=argparse.BooleanOptionalAction,
        help="keep an index, so that a cancel needs no due, and a message can replace those of its id and key "
        "(default: no)",
    )
    spark = parser.add_argument_group("Spark")
    spark.add_argument("--master", metavar="URL", help="default: local[*], or what spark-submit says")
    spark.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help="a setting; may be repeated")
    parser.set_defaults(run=run, prog=parser.prog)


def run(options: argparse.Namespace) -> int:
    """Runs until it is told to stop: 0. A query that fails: 1."""
    settings = settings_of(options.conf)
    require(options.prog, "spark", *([] if options.metrics_port is None else ["metrics"]))
    stop = stop_event()
    with metrics_server(options) as server, spark_errors():
        from hwheel.cli.deliver.places import Places
        from hwheel.spark.deliver.checkpoint import check_logs, only_job
        from hwheel.spark.deliver.delivery import DoneFiles, start_delivery
        from hwheel.spark.deliver.directory import Directory
        from hwheel.spark.deliver.settings import WheelOptions, kept_options
        from hwheel.spark.deliver.source import Source
        from hwheel.spark.hold import SHARDS_MOST
        from hwheel.spark.session.local import make_session

        check_times(options)
        places = Places.of(options)
        kafka = arguments.kafka_of(options)
        spark = make_session(options.master, places.settings(settings), quiet=not options.verbose)
        try:
            if stop.is_set():
                say("stopped before it began")
                return 0
            places.check(spark, kafka)
            checkpoint = Directory(spark, options.checkpoint)
            with only_job(checkpoint):
                check_logs(checkpoint)
                cores = min(spark.sparkContext.defaultParallelism, SHARDS_MOST)
                wheel = kept_options(
                    checkpoint,
                    {**{name: getattr(options, name) for name in KEPT}, "source": places.kind_of_source()},
                    WheelOptions("1 second", DEFAULT_WHEEL_SIZE, cores, cores, "10 minutes"),
                )
                delivery = start_delivery(
                    Source(
                        spark,
                        places.source,
                        options.format,
                        options.files_a_batch,
                        kafka,
                        wheel.due_unit,
                        options.forget_files,
                        wheel.by_id,
                    ),
                    places.to,
                    places.dead_letters,
                    options.format,
                    places.checkpoint,
                    wheel,
                    options.trigger,
                    kafka,
                    options.dead_letters_every,
                    None if options.clean_source is None else DoneFiles(options.archive),
                )
                try:
                    counts = Counts(delivery, partial(count_pending, checkpoint))
                    with metrics(server, counts):
                        return watch(delivery, stop, counts, options.verbose)
                finally:
                    with java_may_be_gone():
                        spark.sparkContext.setLogLevel("OFF")  # of tasks that are cut off: that is no error
                        delivery.stop()
        except ValueError as error:
            raise CommandError(str(error)) from None
        finally:
            with java_may_be_gone():
                spark.stop()


def metrics_server(options: argparse.Namespace) -> "AbstractContextManager[Server | None]":
    """The server that has the address of --metrics-port, if that is wanted."""
    if options.metrics_port is None:
        return nullcontext()
    from hwheel.cli.deliver.metrics import Server

    return Server(options.metrics_host, options.metrics_port)


@contextmanager
def metrics(server: "Server | None", counts: Counts) -> Iterator[None]:
    """Serves them, if that is wanted, and says where."""
    if server is None:
        yield
        return
    from hwheel.cli.deliver.metrics import served

    with served(server, counts) as url:
        say(f"metrics at {url}")
        yield


def count_pending(checkpoint: "Directory") -> int:
    """Counts the rows that are held, and leaves the count in the checkpoint."""
    from hwheel.spark.deliver.checkpoint import MESSAGES
    from hwheel.spark.deliver.pending import rows_by_due

    at_ms = int(time.time() * 1000)
    by_due = rows_by_due(checkpoint.spark, f"{checkpoint.path}/{MESSAGES}", at_ms)
    rows = sum(by_due.values())
    checkpoint.write(LAST_COUNT, json.dumps({"at": at_ms, "rows": rows, "by_due": by_due}))
    return rows


def check_times(options: argparse.Namespace) -> None:
    """Raises CommandError for a length of time that is none, before anything is started or written."""
    from hwheel.spark.deliver.settings import LONGEST_MS
    from hwheel.spark.durations import duration_ms

    for name in ("tick", "dedup", "trigger", "dead_letters_every", "forget_files"):
        if (given := getattr(options, name)) is not None:
            option = f"--{name.replace('_', '-')}"
            try:
                length_ms = duration_ms(given, option)
            except ValueError as error:
                raise CommandError(str(error)) from None
            if length_ms > LONGEST_MS:
                raise CommandError(f"{option} must be shorter than some million days, not {given!r}")
            if name == "tick" and not length_ms:
                raise CommandError(f"{option} must be at least 1ms, not {given!r}")


def java_may_be_gone() -> AbstractContextManager[None]:
    """For what is to be ended anyway."""
    from py4j.protocol import Py4JError

    return suppress(Py4JError, OSError)


def stop_event() -> threading.Event:
    """Set by SIGINT and SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def watch(delivery: "Delivery", stop: threading.Event, counts: Counts, verbose: bool = False) -> int:
    """Counts and shows how it goes until it is to stop."""
    from py4j.protocol import Py4JNetworkError

    from hwheel.spark.deliver.failures import GO_ON

    say("running; Ctrl-C stops it")
    progress = Progress(counts)
    told = 0
    while not stop.wait(0.2):
        try:
            failure = delivery.tend()
        except (Py4JNetworkError, ConnectionError):
            if stop.wait(JAVA_FIRST_S):  # told to stop as all of its group was, and Java was faster
                break
            say(f"Java, on which Spark runs, has ended: it was killed, or had no memory\n{GO_ON}")
            return 1
        for notice in delivery.notices[told:]:
            say(notice)
        told = len(delivery.notices)
        if failure is not None:
            if verbose:
                print(failure.details, file=sys.stderr)
            say(str(failure))
            return 1
        counts.look()
        progress.show()
    say("stopped; nothing is lost, start it again to go on")
    return 0


def say(lines: str) -> None:
    for line in lines.splitlines():
        print(f"hwheel deliver: {line}", file=sys.stderr, flush=True)
