"""The options of ``hwheel tune``."""

import argparse
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hwheel.cli.common import MAX_WHEEL_SIZE, CommandError, add_spark_options, add_subcommand, whole_number
from hwheel.extras import require

DESCRIPTION = """\
Replays a log of timers in virtual time with many ticks and wheel sizes. For
each of them it counts wake-ups of the reaper, moves between levels, lateness,
and memory. It recommends a tick and a size with reasons, shows the effect of
other timeouts, and writes a report with pictures.
"""

EPILOG = """\
A log is Parquet (files, or directories of them), JSON lines (.jsonl, .ndjson,
.json), or CSV with a header (.csv). It has a row for each timer, in any order,
with at least these columns:
  start    time of the start: a number of ms from any origin, or a timestamp
  timeout  a number of ms, or a duration
  end      time of the cancel, like start; null, or empty in CSV, for never
hwheel.recorder writes such a log from a running program.

examples:
  hwheel tune log/                          a table and a recommendation
  hwheel tune examples/requests.jsonl       a log of another program
  hwheel tune log/ --out report             a page with pictures, and JSON
  hwheel tune log/ --timeout 5000 30000     the effect of these timeouts
  hwheel tune log/ --late 20                no timer more than 20 ms late
  hwheel tune log/ --ticks 1 10 --sizes 64 512 4096
  hwheel tune hosts/ --per-file             each host's log on its own wheel
  hwheel tune hdfs:///logs --spark --master yarn --key user --wheels 64

Without --spark the log is held in memory, about 150 bytes per timer; with
--per-file one file at a time.
"""


def add_to(commands: Any) -> None:
    """Add ``tune`` to the subcommands."""
    help = "find the tick, wheel size, and timeout that suit a log of timers"
    parser = add_subcommand(commands, "tune", run, help, (DESCRIPTION, EPILOG))
    add = parser.add_argument
    add("log", metavar="LOG", nargs="+", help="a file, or a directory of Parquet files")
    add("--out", metavar="DIR", type=Path, help="write report.html, report.json, and pictures into DIR")
    add("--json", action="store_true", help="print only the figures, as JSON")
    add("--per-file", action="store_true", help="replay each file on its own wheel (default: one wheel for all)")
    names = ["start", "timeout", "end"]
    text = "names of the columns (default: start timeout end)"
    add("--columns", metavar=("START", "TIMEOUT", "END"), nargs=3, default=names, help=text)
    add = parser.add_argument_group("settings to try").add_argument
    positive = whole_number(1)
    add("--ticks", metavar="MS", nargs="+", type=positive, help="ticks (default: 1 2 5 10 20 50 100)")
    text = "wheel sizes (default: 20 64 256 512 1024)"
    add("--sizes", metavar="N", nargs="+", type=whole_number(2, MAX_WHEEL_SIZE), help=text)
    text = "timeouts to try for all timers, with the recommended tick and size"
    add("--timeout", metavar="MS", nargs="+", type=positive, default=[], help=text)
    text = "permitted lateness of a timer (default: 1%% of the median timeout)"
    add("--late", metavar="MS", type=whole_number(0), help=text)
    add = parser.add_argument_group("Spark, for logs larger than memory").add_argument
    add("--spark", action="store_true", help="replay on Spark: one task, and one wheel, for each file")
    add("--key", metavar="COLUMN", help="distribute timers by this column instead of by file")
    add("--wheels", metavar="N", type=whole_number(1, 4096), help="number of wheels for --key")
    add_spark_options(add)


def run(options: argparse.Namespace) -> int:
    """Replay the log, print the result, and write the report."""
    check_options(options)
    unneeded = [name for name, needed in (("rich", not options.json), ("matplotlib", options.out)) if not needed]
    require(options.prog, "tune", *(["spark"] if options.spark else []), without=unneeded)
    from hwheel.logs.columns import LogError

    try:
        return tune(options)
    except (LogError, OverflowError) as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{error.filename or options.out}: {error.strerror or error}") from None


def check_options(options: argparse.Namespace) -> None:
    """Raise CommandError if options contradict each other."""
    if not options.spark and (options.master or options.conf):
        raise CommandError("--master and --conf need --spark")
    if not options.spark and (options.key or options.wheels):
        raise CommandError("--key and --wheels need --spark")
    if (options.key is None) != (options.wheels is None):
        raise CommandError("--key and --wheels must be given together")
    if options.spark and options.per_file:
        raise CommandError("--per-file cannot be used with --spark, which always has a wheel for each file")
    if options.out and options.out.exists() and not options.out.is_dir():
        raise CommandError(f"--out: {options.out} is not a directory")


def tune(options: argparse.Namespace) -> int:
    """Run the command after the checks."""
    from hwheel.cli.tune.source import Begin, open_source, show_nothing
    from hwheel.logs.columns import LogColumns
    from hwheel.tune.advice import advise
    from hwheel.tune.report import figures_of, write_report
    from hwheel.tune.study import TICKS, WHEEL_SIZES, Grid

    grid = Grid(unique(options.ticks or TICKS), unique(options.sizes or WHEEL_SIZES))
    name = " ".join(options.log)
    with ExitStack() as stack:
        begin: Begin = show_nothing
        if not options.json:
            from hwheel.cli.tune.draw import progress_bar

            begin = stack.enter_context(progress_bar())
        replay = stack.enter_context(open_source(options, LogColumns(*options.columns), begin))
        study = replay(grid, True)
        advice = advise(study, options.late)
        what_if = []
        if options.timeout:
            chosen = Grid((advice.costs.tick_ms,), (advice.costs.wheel_size,), unique(options.timeout))
            what_if = [*replay(chosen, False).costs]
    files = write_report(options.out, name, study, advice, what_if) if options.out else []
    if options.json:
        print(json.dumps(figures_of(name, study, advice, what_if)))
    else:
        from hwheel.cli.tune.draw import print_study

        print_study(study, advice, what_if, files)
    return 0


def unique(numbers: Any) -> tuple[int, ...]:
    return tuple(sorted(set(numbers)))
