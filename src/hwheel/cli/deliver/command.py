"""`hwheel deliver`: hold messages from files or a topic until they are due."""

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hwheel.cli.common import CommandError, add_subcommand, settings_of, spark_errors
from hwheel.cli.deliver.arguments import DESCRIPTION, EPILOG, KEPT, add_options, check_durations, kafka_of
from hwheel.cli.deliver.counts import LAST_COUNT, Counts, Held, Progress
from hwheel.extras import require
from hwheel_core import DEFAULT_WHEEL_SIZE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hwheel.cli.deliver.metrics import Server
    from hwheel.spark.deliver.delivery import Delivery
    from hwheel.spark.deliver.directory import Directory
    from hwheel.spark.deliver.settings import DeliverySettings, Places, WheelOptions
    from hwheel.spark.deliver.topic import KafkaOptions

JAVA_FIRST_S = 2.0  # the wait for a signal to the whole process group, which may end Java before it arrives here
STOPPED_EARLY = "stopped before the start"


def add_to(commands: Any) -> None:
    """Add `deliver` to the subcommands."""
    help = "hold messages until they are due, on Spark"
    add_options(add_subcommand(commands, "deliver", run, help, (DESCRIPTION, EPILOG)))


def run(options: argparse.Namespace) -> int:
    """Run until a signal (status 0) or a failure of a query (status 1)."""
    conf = settings_of(options.conf)
    extras = {"metrics": options.metrics_port is not None, "kafka": options.exactly_once}
    require(options.prog, "spark", *(name for name, needed in extras.items() if needed))
    stop = stop_event()
    with metrics_server(options) as server, spark_errors():
        from hwheel.cli.deliver.places import check_exist, places_of, session_conf

        check_durations(options)
        places, kafka = places_of(options), kafka_of(options)
        spark = start_session(options, session_conf(places, conf), stop)
        if spark is None:
            say(STOPPED_EARLY)
            return 0
        try:
            if stop.is_set():
                say(STOPPED_EARLY)
                return 0
            check_exist(places, spark, kafka)
            return deliver(spark, options, places, kafka, partial(watch_with_metrics, server, stop, options.verbose))
        except ValueError as error:
            raise CommandError(str(error)) from None
        finally:
            with java_may_be_gone():
                spark.stop()


def start_session(options: argparse.Namespace, conf: dict[str, str], stop: threading.Event) -> "SparkSession | None":
    """Start the Spark session. Return None if it does not start because of a signal."""
    from hwheel.spark.session.local import make_session

    try:
        return make_session(options.master, conf, quiet=not options.verbose)
    except Exception:
        if stop.wait(JAVA_FIRST_S):
            return None
        raise


def deliver(
    spark: "SparkSession",
    options: argparse.Namespace,
    places: "Places",
    kafka: "KafkaOptions",
    watch_until_end: "Callable[[Delivery, Directory], int]",
) -> int:
    """Start the delivery, watch it, and stop it. Return the exit status."""
    from hwheel.cli.deliver.places import source_kind
    from hwheel.spark.deliver.checkpoint import check_logs, only_job
    from hwheel.spark.deliver.delivery import start_delivery
    from hwheel.spark.deliver.directory import Directory
    from hwheel.spark.deliver.kept_input import keep_limit, kept_input
    from hwheel.spark.deliver.settings import check_not_moved

    checkpoint = Directory(spark, places.checkpoint)
    with only_job(checkpoint):
        check_logs(checkpoint)
        check_not_moved(checkpoint)
        wheel = wheel_options(checkpoint, options, source_kind(places, kafka))
        source, format = kept_input(checkpoint, places.source, options.format, options.moved_from)
        keep_limit(checkpoint, options.largest_message)
        places = replace(places, source=source)
        delivery = start_delivery(spark, delivery_settings(options, places, wheel, kafka, format))
        try:
            return watch_until_end(delivery, checkpoint)
        finally:
            with java_may_be_gone():
                spark.sparkContext.setLogLevel("OFF")  # hide the errors of tasks that stop() interrupts
                delivery.stop()


def wheel_options(checkpoint: "Directory", options: argparse.Namespace, source: str) -> "WheelOptions":
    """Return the options that the checkpoint stores. A new checkpoint stores those of the command line."""
    from hwheel.spark.deliver.settings import WheelOptions, kept_options
    from hwheel.spark.hold import MAX_SHARDS

    cores = min(checkpoint.spark.sparkContext.defaultParallelism, MAX_SHARDS)
    given = {**{name: getattr(options, name) for name in KEPT}, "source": source}
    return kept_options(checkpoint, given, WheelOptions("1 second", DEFAULT_WHEEL_SIZE, cores, cores, "10 minutes"))


def delivery_settings(
    options: argparse.Namespace, places: "Places", wheel: "WheelOptions", kafka: "KafkaOptions", format: str
) -> "DeliverySettings":
    from hwheel.spark.deliver.settings import DeliverySettings

    return DeliverySettings(
        places,
        wheel,
        kafka,
        format=format,
        trigger=options.trigger,
        dead_letters_every=options.dead_letters_every,
        files_a_batch=options.files_a_batch,
        clean_source=options.clean_source,
        forget_files=options.forget_files,
        largest_message=options.largest_message,
        max_lateness=options.max_lateness,
        too_late=options.too_late,
        rate=options.rate,
        index=options.index,
    )


def java_may_be_gone() -> AbstractContextManager[None]:
    """Suppress the errors of calls to a Java process that has ended, during shutdown."""
    from py4j.protocol import Py4JError

    return suppress(Py4JError, OSError)


def stop_event() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def metrics_server(options: argparse.Namespace) -> "AbstractContextManager[Server | None]":
    """Return a context manager for the server at --metrics-port. Without that option, its value is None."""
    if options.metrics_port is None:
        return nullcontext()
    from hwheel.cli.deliver.metrics import Server

    return Server(options.metrics_host, options.metrics_port)


def say(lines: str) -> None:
    for line in lines.splitlines():
        print(f"hwheel deliver: {line}", file=sys.stderr, flush=True)


# --- while the delivery runs ------------------------------------------------------------------------------------------


def watch_with_metrics(
    server: "Server | None", stop: threading.Event, verbose: bool, delivery: "Delivery", checkpoint: "Directory"
) -> int:
    """Watch a delivery, and serve its counts if there is a server. Return the exit status."""
    counts = Counts(delivery, partial(count_pending, checkpoint))
    if server is not None:
        from hwheel.cli.deliver.metrics import DeliveryCollector

        server.registry.register(DeliveryCollector(counts))
        server.is_healthy = counts.is_healthy
        say(f"metrics at {server.url}")
    return watch(delivery, stop, counts, verbose)


def watch(delivery: "Delivery", stop: threading.Event, counts: Counts, verbose: bool = False) -> int:
    """Tend a delivery and show its counts until a signal or a failure. Return the exit status."""
    from py4j.protocol import Py4JError, Py4JJavaError

    from hwheel.spark.deliver.failures import GO_ON, JAVA_ENDED

    say("running; Ctrl-C stops it")
    progress = Progress(counts)
    shown = 0  # notices
    while not stop.wait(0.2):
        try:
            failure = delivery.tend()
        except (Py4JError, ConnectionError) as error:
            if isinstance(error, Py4JJavaError):  # Java has answered
                raise
            if stop.wait(JAVA_FIRST_S):
                break
            say(f"{JAVA_ENDED}\n{GO_ON}")
            return 1
        for notice in delivery.notices[shown:]:
            say(notice)
        shown = len(delivery.notices)
        if failure is not None:
            if stop.wait(JAVA_FIRST_S):  # the signal is the cause of the failure
                break
            if verbose:
                print(failure.details, file=sys.stderr)
            say(str(failure))
            return 1
        counts.look()
        progress.show()
    say("stopped; nothing is lost, start again to continue")
    return 0


def count_pending(checkpoint: "Directory") -> Held:
    """Count the rows in the state, and store the count in the checkpoint."""
    from hwheel.spark.deliver.checkpoint import MESSAGES
    from hwheel.spark.deliver.pending import indexes, rows_by_due

    at_ms = int(time.time() * 1000)
    found = indexes(checkpoint.spark, f"{checkpoint.path}/{MESSAGES}")
    by_due = rows_by_due(found, at_ms)
    rows = sum(by_due.values())
    checkpoint.write(LAST_COUNT, json.dumps({"at": at_ms, "rows": rows, "by_due": by_due}))
    first_ms = min((expiration_ms for index in found for _, expiration_ms in index.buckets), default=at_ms)
    overdue_s = max(0, at_ms - first_ms) / 1000
    return Held(rows, overdue_s, sum(index.duplicates for index in found), sum(index.cancelled for index in found))
