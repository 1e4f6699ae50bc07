"""`hwheel letters`: count the dead letters of `hwheel deliver` by reason, show them, and play them again."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from hwheel.cli.common import CommandError, add_spark_options, add_subcommand, spark_session, whole_number
from hwheel.cli.pending import utc
from hwheel.extras import require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DESCRIPTION = """\
Count the dead letters of `hwheel deliver` by the code of their reason, show
those with a code, or play their lines again.
"""

EPILOG = """\
examples:
  hwheel letters --from out-dead-letters
  hwheel letters --from out-dead-letters --code no-due
  hwheel letters --from out-dead-letters --code no-due --to fixed
  mv fixed/*.json in/                      after you have edited them
  hwheel letters --from out-dead-letters --code unknown-topic --to in

--to writes the lines into new files. They have the same names each time, so a
job reads a line only once, even if you play it again twice. A letter about a
whole file has no line. The letter of a line that was too large or not UTF-8
does not contain the line, but has its file and number.
"""


def add_to(commands: Any) -> None:
    """Add `letters` to the subcommands."""
    help = "show the dead letters of `deliver`, or play them again"
    add = add_subcommand(commands, "letters", run, help, (DESCRIPTION, EPILOG)).add_argument
    add("--from", dest="source", metavar="DIR", required=True, help="the directory of dead letters, as JSON")
    add("--code", metavar="CODE", action="append", help="only letters with this code; can be repeated")
    add("--to", metavar="DIR", help="write the lines to this directory: the job's input, or a place to edit them")
    add("--most", metavar="N", type=whole_number(1), default=100, help="maximum number to show (default: %(default)s)")
    add("--json", action="store_true", help="write one line of JSON")
    add_spark_options(add)


def run(options: argparse.Namespace) -> int:
    """Show the letters, or write their lines."""
    require(options.prog, "spark")
    with spark_session(options, {"spark.sql.shuffle.partitions": "2"}) as spark:
        try:
            return show(spark, chosen(spark, options), options)
        except ValueError as error:
            raise CommandError(str(error)) from None


def chosen(spark: "SparkSession", options: argparse.Namespace) -> "DataFrame":
    """Return the letters whose codes are on the command line, or all letters."""
    from hwheel.spark.deliver.directory import Directory
    from hwheel.spark.deliver.letters import CODES, COLUMNS, letters_in

    for code in options.code or []:
        if code not in CODES:
            raise CommandError(f"--code must be one of {', '.join(CODES)}, not {code!r}")
    if not Directory(spark, options.source).exists():
        raise CommandError(f"--from: the directory {options.source} does not exist")
    letters = letters_in(spark, options.source)
    letters = spark.createDataFrame([], COLUMNS) if letters is None else letters
    return letters.where(letters.code.isin(*options.code)) if options.code else letters


def show(spark: "SparkSession", letters: "DataFrame", options: argparse.Namespace) -> int:
    """Play letters again, or show them or their counts. Return the exit status."""
    if options.to is not None:
        return play(spark, letters, options)
    if options.code:
        rows = letters.orderBy("time", "file", "block", "number").limit(options.most + 1).collect()
        found = [row.asDict() for row in rows[: options.most]]
        print(json.dumps(found) if options.json else "\n".join(map(shown, found)))
        if len(rows) > options.most:
            print(f"{options.prog}: there are more; --most N shows more", file=sys.stderr)
        return 0
    counts = {row.code: row["count"] for row in letters.groupBy("code").count().orderBy("code").collect()}
    if options.json:
        print(json.dumps(counts))
    else:
        print(f"{sum(counts.values()):,} dead letters")
        for code, count in counts.items():
            print(f"  {code:<18} {count:>14,}")
    return 0


def shown(letter: dict[str, Any]) -> str:
    """Return a letter in a readable form."""
    place = letter["file"] or "a topic"
    if letter["number"] is not None:
        place += f" line {letter['number']}" + (f" from byte {letter['block']}" if letter["block"] else "")
    line = "" if letter["line"] is None else f"\n  {letter['line']}"
    return f"{utc(letter['time'])}  {place}: {letter['reason']}{line}"


def play(spark: "SparkSession", letters: "DataFrame", options: argparse.Namespace) -> int:
    """Write the lines of letters as new files."""
    from hwheel.spark.deliver.directory import Directory
    from hwheel.spark.deliver.letters import resubmit
    from hwheel.spark.deliver.owner import owner_of

    owner = owner_of(Directory(spark, options.source))
    if owner is None:
        raise CommandError(f"--from: {options.source} has no dead letters of a job")
    Directory(spark, options.to).make()
    lines = resubmit(letters, owner.query_id, options.to)
    left = letters.count() - lines
    print(f"{lines:,} lines are in {options.to}")
    if left:
        print(f"{options.prog}: {left:,} letters have no whole line: fix their files", file=sys.stderr)
    return 0
