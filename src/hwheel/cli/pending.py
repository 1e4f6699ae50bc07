"""`hwheel pending`: count or show the messages that a checkpoint holds, while `hwheel deliver` runs."""

import argparse
import json
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwheel.cli.common import CommandError, add_spark_options, add_subcommand, spark_session, whole_number
from hwheel.cli.deliver.command import stop_event
from hwheel.cli.deliver.counts import LAST_COUNT
from hwheel.extras import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BAR = 40  # characters of the longest bar
LATEST_MS = 2**62
SPARK_ALONE = ("pyspark", "pandas", "google.protobuf")  # the index is read without them
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

DESCRIPTION = """\
Count the pending messages of a checkpoint by due time, or show those with an
id or a key. Reads the state of the last completed batch, and does not disturb
a running job.
"""

EPILOG = """\
examples:
  hwheel pending --checkpoint state
  hwheel pending --checkpoint state --last
  hwheel pending --checkpoint state --watch 10s
  hwheel pending --checkpoint state --id m1
  hwheel pending --checkpoint state --key user-7 --due-before 1h
  hwheel pending --checkpoint state --by-hour
  hwheel pending --checkpoint state --due-before 2026-12-24T09:00Z --json
  hwheel pending --checkpoint state --key user-7 --cancel-to in
  hwheel pending --checkpoint state --keys unsubscribed.txt --cancel-to in

The checkpoint is one of `hwheel deliver`, or of any query with hold_until_due.
"""


# --- the command line -------------------------------------------------------------------------------------------------


def add_to(commands: Any) -> None:
    """Add `pending` to the subcommands."""
    help = "show the pending messages of `deliver`"
    add = add_subcommand(commands, "pending", run, help, (DESCRIPTION, EPILOG)).add_argument
    add("--checkpoint", metavar="DIR", required=True, help="the checkpoint of `hwheel deliver`")
    add("--id", metavar="ID", help="show the message with this id; exit status 1 if none is pending")
    text = "show the messages with this key, the next due first; exit status as with --id"
    add("--key", metavar="KEY", help=text)
    text = (
        "only messages that are due earlier: a time like 2026-12-24T09:00Z, epoch milliseconds, or a time from now "
        "like 1h"
    )
    add("--due-before", metavar="TIME", help=text)
    text = "maximum number to show (default: %(default)s)"
    add("--most", metavar="N", type=whole_number(1), default=100, help=text)
    text = "cancel the messages with --key: write a cancel for each into a new file in DIR, the input of the job"
    add("--cancel-to", metavar="DIR", help=text)
    add("--keys", metavar="FILE", help="with --cancel-to: the keys, one on each line, in place of --key")
    add("--watch", metavar="TIME", help="count again at this interval, until Ctrl-C")
    text = (
        "show the last count of a running job, at once and without Spark. The count is up to some minutes old, and "
        "includes duplicates and cancels. Needs a checkpoint in a local directory"
    )
    add("--last", action="store_true", help=text)
    text = (
        "show the number of rows due in each of the next --most hours, without Spark. Includes duplicates and cancels. "
        "Needs an index (`hwheel deliver --index`)"
    )
    add("--by-hour", action="store_true", help=text)
    add("--json", action="store_true", help="write one line of JSON")
    add_spark_options(add)


def run(options: argparse.Namespace) -> int:
    """Show the pending messages. Return 1 if the requested message is not pending."""
    if options.last:
        return show_last(options)
    if (status := show_from_index(options)) is not None:
        return status
    require(options.prog, "spark")
    every_s = watch_interval_s(options)
    keys = keys_to_cancel(options)
    due_before_ms(options.due_before, now_ms())  # reports an invalid time before Spark starts
    with spark_session(options, {"spark.sql.shuffle.partitions": "2"}) as spark:
        try:
            place = state_place(spark, options.checkpoint)
            return show(spark, place, options, every_s) if keys is None else cancel(spark, place, options, keys)
        except ValueError as error:  # the state is damaged, or another version wrote it
            raise CommandError(str(error)) from None


def state_place(spark: "SparkSession", checkpoint: str) -> str:
    """Return the checkpoint of the query that holds messages. Raise CommandError if it has no state."""
    from hwheel.spark.deliver.checkpoint import MESSAGES
    from hwheel.spark.deliver.directory import Directory

    place = checkpoint if Directory(spark, checkpoint).exists("offsets") else f"{checkpoint}/{MESSAGES}"
    if not Directory(spark, place).exists("state"):
        raise CommandError(f"--checkpoint: {checkpoint} is not a checkpoint of a query that has begun")
    return place


def show(spark: "SparkSession", place: str, options: argparse.Namespace, every_s: float | None) -> int:
    """Show messages or counts. Return the exit status."""
    from hwheel.spark.deliver.pending import histogram, matching_rows

    if options.id is not None or options.key is not None:
        before_ms = due_before_ms(options.due_before, now_ms())
        return show_messages(matching_rows(spark, place, options.id, options.key, before_ms, options.most + 1), options)

    def count() -> None:
        at_ms = now_ms()
        show_histogram(histogram(spark, place, at_ms, due_before_ms(options.due_before, at_ms)), options, at_ms)

    count()
    if every_s is not None:
        watch(count, every_s, stop_event())
    return 0


def watch(count: Callable[[], None], every_s: float, stop: threading.Event) -> None:
    """Count at an interval. An error is ignored, because the job may be deleting old files of the state."""
    from hwheel.spark.deliver.failures import FROM_JAVA

    while not stop.wait(every_s):
        with suppress(*FROM_JAVA):
            count()


# --- cancels in bulk --------------------------------------------------------------------------------------------------


def keys_to_cancel(options: argparse.Namespace) -> list[str] | None:
    """Return the keys of --cancel-to, or None without it. Raise CommandError if options contradict each other."""
    if options.cancel_to is None:
        if options.keys is not None:
            raise CommandError("--keys needs --cancel-to")
        return None
    if (options.key is None) == (options.keys is None):
        raise CommandError("--cancel-to needs --key or --keys")
    if options.id is not None or options.due_before is not None or options.watch is not None:
        raise CommandError("--cancel-to cancels all messages of the keys: leave out --id, --due-before and --watch")
    if options.keys is None:
        return [options.key]
    try:
        return Path(options.keys).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise CommandError(f"--keys: {options.keys} cannot be read: {error}") from None


def cancel(spark: "SparkSession", place: str, options: argparse.Namespace, keys: list[str]) -> int:
    """Write cancels for the pending messages of some keys. Return 1 if no message is pending."""
    from hwheel.spark.deliver.directory import Directory
    from hwheel.spark.deliver.kept_input import stored_input
    from hwheel.spark.deliver.pending import cancels
    from hwheel.spark.deliver.settings import OPTIONS_FILE, UNITS_MS, WheelOptions
    from hwheel.spark.deliver.sink import DirectorySink

    checkpoint = Directory(spark, options.checkpoint)
    if not checkpoint.exists(OPTIONS_FILE):
        raise CommandError(f"--cancel-to: {options.checkpoint} is not a checkpoint of `hwheel deliver`")
    wheel = WheelOptions.from_json(checkpoint.read(OPTIONS_FILE))
    _, format = stored_input(checkpoint) or ("", "json")
    if format != "json" or wheel.source == "a topic with headers":
        raise CommandError("--cancel-to writes lines of JSON, which the job of this checkpoint does not read")
    found = cancels(spark, place, keys, UNITS_MS[wheel.due_unit])
    lines = [] if found is None else found.collect()
    if lines:
        Directory(spark, options.cancel_to).make()
        rows = spark.createDataFrame(lines, "line string")
        DirectorySink(options.cancel_to, "text").add(rows, f"cancels-{now_ms()}")
    print(f"{len(lines):,} cancels are in {options.cancel_to}" if lines else "nothing pending")
    return 0 if lines else 1


# --- times ------------------------------------------------------------------------------------------------------------


def watch_interval_s(options: argparse.Namespace) -> float | None:
    """Return the interval of --watch in seconds, or None. Raise CommandError if it is invalid."""
    from hwheel.spark.durations import duration_ms

    if options.watch is None:
        return None
    if options.id is not None or options.key is not None:
        raise CommandError("--watch counts: leave out --id and --key")
    try:
        length_ms = duration_ms(options.watch, "--watch")
    except ValueError as error:
        raise CommandError(str(error)) from None
    if not 100 <= length_ms <= 10**10:
        raise CommandError(f"--watch must be from 100ms to 100 days, not {options.watch!r}")
    return length_ms / 1000


def due_before_ms(given: str | None, at_ms: int) -> int | None:
    """Return --due-before in epoch milliseconds. Raise CommandError if it is invalid."""
    if given is None:
        return None
    if given.strip().isdecimal():
        return min(int(given[:30]), LATEST_MS)
    try:
        moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", given.strip()))
    except ValueError:
        pass
    else:
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - EPOCH) // timedelta(milliseconds=1)
    from hwheel.spark.durations import duration_ms

    try:
        return min(at_ms + duration_ms(given, "--due-before"), LATEST_MS)
    except ValueError:
        raise CommandError(
            f"--due-before must be a time like 2026-12-24T09:00Z, epoch milliseconds, or a time from now like 1h, "
            f"not {given!r}"
        ) from None


def now_ms() -> int:
    return int(time.time() * 1000)


def utc(ms: int) -> str:
    """Return a time in UTC in a readable form."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ms // 1000)) + " UTC"


# --- answers without Spark --------------------------------------------------------------------------------------------


def local_path(checkpoint: str) -> Path:
    """Return the path of a local checkpoint, which may be given as a URL."""
    return Path(re.sub("^file:/*(?=/)", "", checkpoint))


def show_last(options: argparse.Namespace) -> int:
    """Print the last count of `hwheel deliver`."""
    if not (options.id is options.key is options.due_before is options.watch is None):
        raise CommandError("--last counts all messages: leave out --id, --key, --due-before and --watch")
    file = local_path(options.checkpoint) / LAST_COUNT
    try:
        last = json.loads(file.read_text(encoding="utf-8"))
        at_ms, rows, by_due = int(last["at"]), int(last["rows"]), {name: int(n) for name, n in last["by_due"].items()}
        if min(rows, *by_due.values()) < 0:
            raise ValueError("a count is below 0")
        when = utc(at_ms)
    except FileNotFoundError:
        raise CommandError(
            f"--last: {file} does not exist\n"
            "the job writes it after its first batch; the checkpoint must be in a local directory"
        ) from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise CommandError(f"--last: {file} cannot be read: {error}") from None
    if options.json:
        print(json.dumps({"at": at_ms, "rows": rows, "by_due": by_due}))
        return 0
    print(f"{rows:,} rows pending at {when}, {max(0, now_ms() - at_ms) / 1000:,.0f} s ago")
    show_bars(by_due)
    return 0


def show_from_index(options: argparse.Namespace) -> int | None:
    """Answer from the lookup index of a local checkpoint. Return None if Spark must read the state."""
    wants_messages = (options.id is not None or options.key is not None) and options.cancel_to is options.watch is None
    if not wants_messages and not options.by_hour:
        return None
    if options.by_hour and not (options.id is options.key is options.due_before is options.watch is None):
        raise CommandError("--by-hour counts all messages: leave out --id, --key, --due-before and --watch")
    require(options.prog, "spark", without=SPARK_ALONE)
    from hwheel.lookup.reader import HeldIndex, NoIndexError

    try:
        index = HeldIndex.open(local_path(options.checkpoint))
    except (NoIndexError, OSError, ValueError) as error:
        if options.by_hour:
            raise CommandError(f"--by-hour: {error}\nthe job keeps an index with `hwheel deliver --index`") from None
        return None
    if options.by_hour:
        return show_hours(*index.rows_by_hour(options.most), options)
    before_ms = due_before_ms(options.due_before, now_ms())
    return show_messages(index.matching_rows(options.id, options.key, before_ms, options.most + 1), options)


# --- output -----------------------------------------------------------------------------------------------------------


def show_hours(by_hour: dict[int, int], later: int, options: argparse.Namespace) -> int:
    """Print the number of rows due in each hour, and of later ones."""
    rows = sum(by_hour.values()) + later
    if options.json:
        found = {start: count for start, count in by_hour.items() if count}
        print(json.dumps({"rows": rows, "by_hour": found, "later": later}))
        return 0
    print(f"{rows:,} rows pending")
    show_bars({utc(start)[:16]: count for start, count in by_hour.items()} | {"later": later})
    return 0


def show_messages(rows: list[dict[str, Any]], options: argparse.Namespace) -> int:
    """Print rows of the state. Return 1 if none of them is a message that will be delivered."""
    more, rows = rows[options.most :], rows[: options.most]
    if options.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            kind = "cancel" if row["cancelled"] else "message"
            payload = "" if row["cancelled"] else "  " + " ".join(str(part) for part in row["payload"])
            print(f"{kind} {row['id']}  key {row['key']}  due {row['due']} ms ({utc(row['due'])}){payload}")
        if not rows:
            asked = (text for text in (options.id, options.key) if text is not None)
            print(f"{', '.join(asked)}: nothing pending")
    if more:
        print(f"{options.prog}: there are more; --most N shows more", file=sys.stderr)
    cancelled = {(row["id"], row["key"], row["tick"]) for row in rows if row["cancelled"]}
    return 0 if any((row["id"], row["key"], row["tick"]) not in cancelled for row in rows) else 1


def show_histogram(counts: dict[str, int], options: argparse.Namespace, at_ms: int) -> None:
    """Print the number of messages, and bars by due time."""
    total = sum(counts.values())
    if options.json:
        print(json.dumps({"at": at_ms, "pending": total, "by_due": counts}), flush=True)
        return
    print(f"{total:,} pending" + (f" at {utc(at_ms)}" if options.watch else ""))
    show_bars(counts)
    sys.stdout.flush()


def show_bars(counts: dict[str, int]) -> None:
    most = max(counts.values(), default=0)
    for name, count in counts.items():
        if count:
            print(f"  {name:<18} {count:>14,}  {'#' * max(1, count * BAR // most)}")
