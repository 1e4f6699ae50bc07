"""`hwheel pending`: what a checkpoint holds, while `hwheel deliver` goes on."""

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
from typing import Any

from hwheel.cli.common import CommandError, add_subcommand, settings_of, spark_errors, whole_number
from hwheel.cli.deliver.command import stop_event
from hwheel.cli.deliver.counts import LAST_COUNT
from hwheel.extras import require

BAR = 40
LATEST_MS = 2**62
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

DESCRIPTION = """\
Counts the messages that a checkpoint holds, by how far away their due times are, or shows those with an id or a key.
It reads the state of the last batch that was completed, and does not disturb the job that runs on it.
"""

EPILOG = """\
examples:
  hwheel pending --checkpoint state
  hwheel pending --checkpoint state --last
  hwheel pending --checkpoint state --watch 10s
  hwheel pending --checkpoint state --id m1
  hwheel pending --checkpoint state --key user-7 --due-before 1h
  hwheel pending --checkpoint state --due-before 2026-12-24T09:00Z --json

The checkpoint is that of `hwheel deliver`, or of any query with hold_until_due.
"""


def add_to(commands: Any) -> None:
    """Adds `pending` to the subcommands."""
    parser = add_subcommand(
        commands,
        "pending",
        help="what a checkpoint of `deliver` holds",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("--checkpoint", metavar="DIR", required=True, help="that of `hwheel deliver`")
    parser.add_argument("--id", metavar="ID", help="show the message with this id; status 1 if none is pending")
    parser.add_argument(
        "--key", metavar="KEY", help="show the messages with this key, the next due first; status as with --id"
    )
    parser.add_argument(
        "--due-before",
        metavar="TIME",
        help="only what is due before: a time like 2026-12-24T09:00Z, epoch milliseconds, or how long from now: 1h",
    )
    parser.add_argument(
        "--most", metavar="N", type=whole_number(1), default=100, help="show so many at most (default: %(default)s)"
    )
    parser.add_argument("--watch", metavar="TIME", help="count again each time that so long has passed, until Ctrl-C")
    parser.add_argument(
        "--last",
        action="store_true",
        help="at once and without Spark: what the job counted last, at most some minutes ago while it runs. Rows, so "
        "repeats and cancels count; of a checkpoint in a local directory",
    )
    parser.add_argument("--json", action="store_true", help="write JSON, on a line")
    parser.add_argument("--master", metavar="URL", help="default: local[*], or what spark-submit says")
    parser.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help="a setting of Spark's")
    parser.set_defaults(run=run, prog=parser.prog)


def run(options: argparse.Namespace) -> int:
    """Shows it. Status 1: the message that was asked for is not pending."""
    settings = settings_of(options.conf)
    if options.last:
        return show_last(options)
    require(options.prog, "spark")
    with spark_errors():
        from hwheel.spark.deliver.checkpoint import MESSAGES
        from hwheel.spark.deliver.directory import Directory
        from hwheel.spark.deliver.pending import histogram, messages
        from hwheel.spark.session.local import make_session

        listed = options.id is not None or options.key is not None
        every_s = watch_s(options, listed)
        due_before_ms(options.due_before, now_ms())  # as it was given, before anything is started
        spark = make_session(
            options.master, {"spark.sql.shuffle.partitions": "2", **settings}, quiet=not options.verbose
        )
        try:
            checkpoint = Directory(spark, options.checkpoint)
            place = options.checkpoint if checkpoint.exists("offsets") else f"{options.checkpoint}/{MESSAGES}"
            if not Directory(spark, place).exists("state"):
                raise CommandError(f"--checkpoint: {options.checkpoint} is no checkpoint of a query that has begun")
            if listed:
                before_ms = due_before_ms(options.due_before, now_ms())
                return show_messages(
                    messages(spark, place, options.id, options.key, before_ms, options.most + 1), options
                )

            def count() -> None:
                at_ms = now_ms()
                show_histogram(histogram(spark, place, at_ms, due_before_ms(options.due_before, at_ms)), options, at_ms)

            count()
            if every_s is not None:
                watch(count, every_s, stop_event())
            return 0
        except ValueError as error:  # what is held is damaged, or was written by another version
            raise CommandError(str(error)) from None
        finally:
            spark.stop()


def watch(count: Callable[[], None], every_s: float, stop: threading.Event) -> None:
    """Counts again and again. What cannot be read just now, since the job clears old files away, can be next time."""
    from hwheel.spark.deliver.failures import FROM_JAVA

    while not stop.wait(every_s):
        with suppress(*FROM_JAVA):
            count()


def watch_s(options: argparse.Namespace, listed: bool) -> float | None:
    """The seconds of --watch, if it was given. Raises CommandError."""
    from hwheel.spark.durations import duration_ms

    if options.watch is None:
        return None
    if listed:
        raise CommandError("--watch counts: leave out --id and --key")
    try:
        length_ms = duration_ms(options.watch, "--watch")
    except ValueError as error:
        raise CommandError(str(error)) from None
    if not 100 <= length_ms <= 10**10:
        raise CommandError(f"--watch must be from 100ms to a hundred days, not {options.watch!r}")
    return length_ms / 1000


def due_before_ms(given: str | None, at_ms: int) -> int | None:
    """Epoch milliseconds of --due-before. Raises CommandError."""
    from hwheel.spark.durations import duration_ms

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
    try:
        return min(at_ms + duration_ms(given, "--due-before"), LATEST_MS)
    except ValueError:
        raise CommandError(
            f"--due-before must be a time like 2026-12-24T09:00Z, epoch milliseconds, or how long from now, like 1h, "
            f"not {given!r}"
        ) from None


def now_ms() -> int:
    return int(time.time() * 1000)


def show_last(options: argparse.Namespace) -> int:
    """Prints what `hwheel deliver` counted last."""
    if not (options.id is options.key is options.due_before is options.watch is None):
        raise CommandError("--last is a count of all: leave out --id, --key, --due-before and --watch")
    file = Path(re.sub("^file:/*(?=/)", "", options.checkpoint)) / LAST_COUNT
    try:
        last = json.loads(file.read_text(encoding="utf-8"))
        at_ms, rows, by_due = int(last["at"]), int(last["rows"]), {name: int(n) for name, n in last["by_due"].items()}
        if min(rows, *by_due.values()) < 0:
            raise ValueError("a count is below 0")
        when = utc(at_ms)
    except FileNotFoundError:
        raise CommandError(
            f"--last: there is no {file}\n"
            "the job writes it when it has completed a batch; the checkpoint has to be in a local directory"
        ) from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise CommandError(f"--last: {file} cannot be read: {error}") from None
    if options.json:
        print(json.dumps({"at": at_ms, "rows": rows, "by_due": by_due}))
        return 0
    print(f"{rows:,} rows pending at {when}, {max(0, now_ms() - at_ms) / 1000:,.0f} s ago")
    show_bars(by_due)
    return 0


def show_messages(rows: list[dict[str, Any]], options: argparse.Namespace) -> int:
    """Prints what the state has of what was asked for; 1 if there is no message among it that will go out."""
    more, rows = rows[options.most :], rows[: options.most]
    if options.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            what = "cancel" if row["cancelled"] else "message"
            payload = "" if row["cancelled"] else "  " + " ".join(str(part) for part in row["payload"])
            print(f"{what} {row['id']}  key {row['key']}  due {row['due']} ms ({utc(row['due'])}){payload}")
        if not rows:
            asked = (one for one in (options.id, options.key) if one is not None)
            print(f"{', '.join(asked)}: nothing pending")
    if more:
        print(f"{options.prog}: there are more; --most N shows more", file=sys.stderr)
    cancelled = {(row["id"], row["key"], row["tick"]) for row in rows if row["cancelled"]}
    return 0 if any((row["id"], row["key"], row["tick"]) not in cancelled for row in rows) else 1


def show_histogram(counts: dict[str, int], options: argparse.Namespace, at_ms: int) -> None:
    """Prints the count and the bars."""
    total = sum(counts.values())
    if options.json:
        print(json.dumps({"at": at_ms, "pending": total, "by_due": counts}), flush=True)
        return
    print(f"{total:,} pending" + (f" at {utc(at_ms)}" if options.watch else ""))
    show_bars(counts)
    sys.stdout.flush()


def show_bars(counts: dict[str, int]) -> None:
    """Prints the bars."""
    most = max(counts.values(), default=0)
    for name, count in counts.items():
        if count:
            print(f"  {name:<18} {count:>14,}  {'#' * max(1, count * BAR // most)}")


def utc(ms: int) -> str:
    """A time, in UTC, as people read it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ms // 1000)) + " UTC"
