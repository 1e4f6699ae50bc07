"""The options of ``hwheel demo``, the runs, and the table."""

import argparse
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from hwheel.cli import common
from hwheel.cli.common import MAX_WHEEL_SIZE, CommandError, add_subcommand, positive_number, ratio, whole_number
from hwheel.extras import require
from hwheel_core import DEFAULT_WHEEL_SIZE

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from hwheel.cli.demo.drive import Run, Workload
    from hwheel.cli.demo.engines import Engine

ADD_PHASE_S = 7.0  # the whole demo takes about 20 s
PEER_S = 1.0  # the duration of a peer's shortened workload

DESCRIPTION = """\
Runs request timeouts on a SystemTimer: requests start at a steady rate, and
each adds a timer. Most requests complete in time, which cancels the timer; the
other timers expire. A table compares the cost with that of asyncio, sched, and
threading.Timer. The exit status is 1 if any timer was lost, ran twice, or ran
early.
"""

EPILOG = """\
examples:
  hwheel demo
  hwheel demo --count 1000000 --no-peers
  hwheel demo --cancel-ratio 0 --timeout-ms 100 2000   every timer expires
  hwheel demo --tick-ms 100 --wheel-size 20            a coarse, small wheel
  hwheel demo --live /tmp/demo.sock                    for hwheel top
"""

NOTES = """\
timers and cancels a second: the rate of calls in a loop that does nothing else.
lateness: from the deadline to the callback. The wheel rounds deadlines up to
its tick of {tick_ms} ms, so half a tick late is normal and nothing is early."""

PEER_NOTES = f"""
Each peer ran every n-th request, as many as it can handle, within {PEER_S:g} s.
Fewer pending timers make its figures look better."""


# --- options ----------------------------------------------------------------------------------------------------------


def add_to(commands: Any) -> None:
    """Add ``demo`` to the subcommands."""
    help = "compare the timer with its peers on a real workload (about 20 s)"
    parser = add_subcommand(commands, "demo", run, help, (DESCRIPTION, EPILOG))
    add = parser.add_argument_group("workload").add_argument
    add("--count", metavar="N", type=whole_number(1), default=200_000, help="number of requests (default: 200,000)")
    add("--rate", metavar="R", type=positive_number, help=f"requests per second (default: count / {ADD_PHASE_S:g})")
    text = "share of requests that complete in time (default: %(default)s)"
    add("--cancel-ratio", metavar="X", type=ratio, default=0.95, help=text)
    range_ms, text = [1000.0, 10_000.0], "range of the timeouts (default: 1000 10000)"
    add("--timeout-ms", metavar=("MIN", "MAX"), nargs=2, type=positive_number, default=range_ms, help=text)
    add("--seed", metavar="N", type=whole_number(0), default=0, help="random seed (default: %(default)s)")
    add = parser.add_argument_group("timer").add_argument
    add("--tick-ms", "--tick", metavar="MS", type=whole_number(1), default=1, help="tick (default: %(default)s)")
    size, text = whole_number(2, MAX_WHEEL_SIZE), "buckets per level (default: %(default)s)"
    add("--wheel-size", metavar="N", type=size, default=DEFAULT_WHEEL_SIZE, help=text)
    text = "serve snapshots of the timer at a path or port, for hwheel top"
    parser.add_argument("--live", metavar="ADDRESS", help=text)
    text = "also run asyncio, sched, and threading.Timer (default: yes)"
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True, help=text)


def complete_options(options: argparse.Namespace) -> None:
    """Set the rate if it was not given. Raise CommandError if options contradict each other."""
    if options.rate is None:
        options.rate = options.count / ADD_PHASE_S
    shortest_ms, longest_ms = options.timeout_ms
    if shortest_ms > longest_ms:
        raise CommandError(f"--timeout-ms: MIN must not be above MAX, got {shortest_ms:g} {longest_ms:g}")


# --- runs -------------------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> int:
    """Run the demo. Return 1 if a timer was lost, ended twice, or ran early."""
    complete_options(options)
    require(options.prog, "cli")
    from rich.console import Console

    from hwheel.cli.demo.drive import Workload, generate
    from hwheel.cli.demo.engines import PEERS, WheelEngine

    requests = generate(options)
    workload = Workload(requests)
    make_wheel = partial(WheelEngine, options.tick_ms, options.wheel_size)
    try:
        make_wheel().close()
    except (ValueError, OverflowError) as error:
        raise CommandError(str(error)) from None
    console = Console(highlight=False)
    with common.serve_live(options.live):
        console.print(headline(options, workload))
        with progress_on(console) as progress:
            runs = [drive_on(make_wheel, workload, progress)]
            for peer in PEERS if options.peers else []:
                sample = requests[:: -(-len(requests) // peer.most)]
                runs.append(drive_on(peer, Workload(sample, speed=max(1.0, workload.seconds / PEER_S)), progress))
    print_table(runs, options.tick_ms, console)
    return print_account(runs[0], console)


def drive_on(make_engine: "Callable[[], Engine]", workload: "Workload", progress: "Progress") -> "Run":
    """Run the workload on a new engine, with a progress bar."""
    from hwheel.cli.demo.drive import Run

    with closing(make_engine()) as engine:
        bar = progress.add_task(engine.name, total=len(workload.timeouts_s), figures="")

        def report(run: "Run") -> None:
            cancelled, expired = len(run.cancels), len(run.callbacks)
            figures = f"{run.pending:>7,} pending {cancelled:>9,} cancelled {expired:>7,} expired"
            progress.update(bar, completed=cancelled + expired, figures=figures)
            progress.refresh()

        return Run(engine, workload, report).drive()


# --- output -----------------------------------------------------------------------------------------------------------


def headline(options: argparse.Namespace, workload: "Workload") -> str:
    """Describe the workload and how long it takes."""
    shortest_s, longest_s = (ms / 1000 for ms in options.timeout_ms)
    text = (
        f"{len(workload.timeouts_s):,} requests at {options.rate:,.0f} per second with timeouts of {shortest_s:g} to "
        f"{longest_s:g} s, of which {options.cancel_ratio:.0%} complete in time"
    )
    duration = f"{workload.seconds:.0f} s" + (", then the peers" if options.peers else "")
    return f"{text}; tick {options.tick_ms} ms, {options.wheel_size} buckets per level. About {duration}."


def progress_on(console: "Console") -> "Progress":
    """Return a progress display that redraws only in ``refresh()``.

    A refresh thread of rich would take the GIL from the callbacks at any time.
    """
    from rich.progress import BarColumn, Progress, TextColumn

    columns = TextColumn("{task.description}"), BarColumn(bar_width=10), TextColumn("{task.fields[figures]}")
    return Progress(*columns, console=console, auto_refresh=False)


def figures_of(run: "Run") -> dict[str, str]:
    """Return the figures of a run as text, by the name of the row."""
    late_ms = sorted((when - run.deadlines[index]) * 1000.0 for index, when in run.callbacks)
    return {
        "timers": f"{len(run.deadlines):,}",
        "pending at most": f"{run.peak_pending:,}",
        "timers a second": rate_text(len(run.deadlines), run.adding_s),
        "cancels a second": rate_text(run.cancel_calls, run.cancelling_s),
        "cancelled": f"{len(run.cancels):,}",
        "expired": f"{len(run.callbacks):,}",
        "lateness p50": percentile_text(late_ms, 50),
        "lateness p99": percentile_text(late_ms, 99),
        "lateness max": percentile_text(late_ms, 100),
    }


def rate_text(count: int, seconds: float) -> str:
    if not count or seconds <= 0:
        return "-"
    rate = count / seconds
    return f"{round(rate, -2) if rate >= 10_000 else rate:,.0f}"  # the last two digits of a high rate are noise


def percentile_text(late_ms: list[float], percent: int) -> str:
    """Format a percentile (nearest rank) of sorted values."""
    if not late_ms:
        return "-"
    return f"{late_ms[max(0, -(-percent * len(late_ms) // 100) - 1)]:.2f} ms"


def print_table(runs: "list[Run]", tick_ms: int, console: "Console") -> None:
    """Print a column for each engine, hwheel first, and notes on the figures."""
    from rich import box
    from rich.table import Table

    table = Table("", box=box.SIMPLE_HEAD, pad_edge=False)
    for run in runs:
        table.add_column(run.engine.name, justify="right", style="" if table.columns[1:] else "bold")
    columns = [figures_of(run) for run in runs]
    for row in columns[0]:
        table.add_row(row, *(column[row] for column in columns))
    console.print(table)
    notes = NOTES.format(tick_ms=tick_ms)
    console.print(notes + (PEER_NOTES if len(runs) > 1 else ""), style="dim")


def print_account(run: "Run", console: "Console") -> int:
    """Print how the timers of a run ended. Return the exit status."""
    from hwheel.cli.demo.drive import account

    found = account(run.deadlines, run.callbacks, run.cancels)
    ends = f"{len(run.deadlines):,} timers: {len(run.cancels):,} cancelled, {len(run.callbacks):,} ran"
    text = ", ".join(f"{name} {count:,}" for name, count in found._asdict().items())
    console.print(f"\n{ends}; [bold {'red' if any(found) else 'green'}]{text}[/]")
    return 1 if any(found) else 0
