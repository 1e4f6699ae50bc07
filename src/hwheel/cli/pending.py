"""`hwheel pending`: what a checkpoint holds, while `hwheel deliver` goes on."""

import argparse
import json
import time
from typing import Any

from hwheel.cli.errors import CommandError
from hwheel.cli.extras import settings_of, spark_errors
from hwheel.cli.options import add_subcommand
from hwheel.extras import require

BAR = 40

DESCRIPTION = """\
Counts the messages that a checkpoint holds, by how far away their due times are, or shows one by its id. It reads the
state of the last batch that was completed, and does not disturb the job that runs on it.
"""

EPILOG = """\
examples:
  hwheel pending --checkpoint state
  hwheel pending --checkpoint state --id m1
  hwheel pending --checkpoint state --json

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
    parser.add_argument("--json", action="store_true", help="write JSON")
    parser.add_argument("--master", metavar="URL", help="default: local[*], or what spark-submit says")
    parser.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help="a setting of Spark's")
    parser.set_defaults(run=run, prog=parser.prog)


def run(options: argparse.Namespace) -> int:
    """Shows it. Status 1: the message that was asked for is not pending."""
    settings = settings_of(options.conf)
    require(options.prog, "spark")
    with spark_errors():
        from hwheel.spark.deliver.delivery import MESSAGES
        from hwheel.spark.deliver.files import Directory
        from hwheel.spark.deliver.pending import histogram, message
        from hwheel.spark.session.local import make_session

        spark = make_session(
            options.master, {"spark.sql.shuffle.partitions": "2", **settings}, quiet=not options.verbose
        )
        try:
            checkpoint = Directory(spark, options.checkpoint)
            place = options.checkpoint if checkpoint.exists("offsets") else f"{options.checkpoint}/{MESSAGES}"
            if not Directory(spark, place).exists("state"):
                raise CommandError(f"--checkpoint: {options.checkpoint} is no checkpoint of a query that has begun")
            if options.id is not None:
                return show_message(message(spark, place, options.id), options)
            show_histogram(histogram(spark, place, int(time.time() * 1000)), options)
            return 0
        finally:
            spark.stop()


def show_message(rows: list[dict[str, Any]], options: argparse.Namespace) -> int:
    """Prints what the state has of one id; 1 if there is no message of it that will go out."""
    if options.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            what = "cancel" if row["cancelled"] else "message"
            payload = "" if row["cancelled"] else "  " + " ".join(str(part) for part in row["payload"])
            print(f"{what} {row['id']}  key {row['key']}  due {row['due']} ms ({utc(row['due'])}){payload}")
        if not rows:
            print(f"{options.id}: nothing pending")
    cancelled = {(row["key"], row["tick"]) for row in rows if row["cancelled"]}
    return 0 if any((row["key"], row["tick"]) not in cancelled for row in rows) else 1


def show_histogram(counts: dict[str, int], options: argparse.Namespace) -> None:
    """Prints the count and the bars."""
    total = sum(counts.values())
    if options.json:
        print(json.dumps({"pending": total, "by_due": counts}))
        return
    print(f"{total:,} pending")
    most = max(counts.values())
    for name, count in counts.items():
        if count:
            print(f"  {name:<18} {count:>14,}  {'#' * max(1, count * BAR // most)}")


def utc(ms: int) -> str:
    """A time, in UTC, as people read it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ms // 1000)) + " UTC"
