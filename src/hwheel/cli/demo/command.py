"""`hwheel demo`: a real workload on a real timer, and on its peers."""

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hwheel.cli.common import WHEEL_SIZE_MOST, CommandError, add_subcommand, positive_number, ratio, whole_number
from hwheel.cli.demo.account import account
from hwheel.cli.demo.request_log import read_log
from hwheel.cli.demo.workload import Request, Workload, made_up, sample, workload_of
from hwheel.extras import require
from hwheel_core import DEFAULT_WHEEL_SIZE

if TYPE_CHECKING:
    from hwheel.cli.demo.draw import Board
    from hwheel.cli.demo.drive import Run
    from hwheel.cli.demo.engines import Engine
    from hwheel.cli.demo.outcome import Outcome

ADD_PHASE_S = 7.0  # with the last timeout, the peers and the counting of memory it makes about 20 s
PEER_S = 1.0  # to what a peer's workload is shortened
DEFAULTS = {"count": 200_000, "rate": None, "cancel_ratio": 0.95, "timeout_ms": [1000.0, 10_000.0], "seed": 0}

DESCRIPTION = """\
Runs request timeouts on a real SystemTimer: requests come in at a steady rate, each adds a timer, and most complete in
time, which cancels it; the others' timers expire. Then it shows what that took, and what the same workload takes on
asyncio, sched and threading.Timer. Every timer is accounted for: a run in which one was lost, doubled or early ends
with status 1.
"""

EPILOG = """\
examples:
  hwheel demo
  hwheel demo --count 1000000 --no-peers
  hwheel demo --cancel-ratio 0 --timeout-ms 100 2000      every timer expires
  hwheel demo --tick-ms 100 --wheel-size 20               coarse and small, as Kafka's
  hwheel demo --live /tmp/demo.sock                       in another terminal: hwheel top /tmp/demo.sock
  hwheel demo --log examples/requests.jsonl --speed 2     a recorded log, twice as fast

A log has a request a line, as JSON lines or as CSV with a first line of names; times in ms from anywhere:
  {"start": 12.5, "timeout": 500, "end": 20.1}            completed: its timer is cancelled then
  {"start": 14.0, "timeout": 500, "end": null}            never completed: its timer expires
"""


class Wheel(NamedTuple):
    """The settings of the wheel."""

    tick_ms: int
    wheel_size: int


def add_to(commands: Any) -> None:
    """Adds `demo` to the subcommands."""
    parser = add_subcommand(
        commands,
        "demo",
        help="run a real workload on the timer and on its peers (about 20 s)",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    # No defaults in these: with a log they mean nothing, and giving them is an error.
    made = parser.add_argument_group("the workload, made up")
    made.add_argument("--count", metavar="N", type=whole_number(1), help="requests (default: 200,000)")
    made.add_argument(
        "--rate", metavar="R", type=positive_number, help=f"requests a second (default: count / {ADD_PHASE_S:g})"
    )
    made.add_argument(
        "--cancel-ratio", metavar="X", type=ratio, help="share that completes in time, 0 to 1 (default: 0.95)"
    )
    made.add_argument(
        "--timeout-ms",
        metavar=("MIN", "MAX"),
        nargs=2,
        type=positive_number,
        help="timeouts in ms, evenly spread (default: 1000 10000)",
    )
    made.add_argument("--seed", metavar="N", type=whole_number(0), help="of the random numbers (default: 0)")
    logged = parser.add_argument_group("the workload, from a log")
    logged.add_argument("--log", metavar="FILE", type=Path, help="a log of requests, JSON lines or CSV")
    logged.add_argument("--format", choices=["jsonl", "csv"], help="of the log (default: by its extension)")
    logged.add_argument(
        "--speed", metavar="N", type=positive_number, help="run it N times faster, timeouts as well (default: 1)"
    )
    wheel = parser.add_argument_group("the timer")
    wheel.add_argument(
        "--tick-ms",
        "--tick",
        dest="tick_ms",
        metavar="MS",
        type=whole_number(1),
        default=1,
        help="tick in ms (default: %(default)s)",
    )
    wheel.add_argument(
        "--wheel-size",
        metavar="N",
        type=whole_number(2, WHEEL_SIZE_MOST),
        default=DEFAULT_WHEEL_SIZE,
        help="buckets a level (default: %(default)s)",
    )
    parser.add_argument(
        "--live", metavar="ADDRESS", help="show the timer there, a path or a port: try hwheel top in another terminal"
    )
    parser.add_argument(
        "--peers",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also run asyncio, sched and threading.Timer (default: yes)",
    )
    parser.set_defaults(run=run, prog=parser.prog)


def run(options: argparse.Namespace) -> int:
    """Runs the demo, draws it, and returns 1 if a timer was lost, doubled or early."""
    check_together(options)
    require(options.prog, "cli")
    requests = read_log(options.log, options.format) if options.log else made_up_requests(options)
    speed = options.speed or 1.0

    from rich.console import Console

    from hwheel.cli.demo.draw import Board, draw_account, draw_outcomes
    from hwheel.cli.demo.engines import PEERS, WheelEngine

    console = Console(highlight=False)
    wheel = Wheel(options.tick_ms, options.wheel_size)
    make_wheel = partial(WheelEngine, *wheel)
    try:
        make_wheel().close()
    except (ValueError, OverflowError) as error:
        raise CommandError(str(error)) from None
    workload = workload_of(requests, speed)
    with ExitStack() as stack:
        stack.enter_context(live_look(options.live))
        console.print(headline(options, workload, wheel))
        board = stack.enter_context(Board(console))
        wheel_run = drive_on(make_wheel, workload, board)
        outcomes = [figures(wheel_run, speed, make_wheel, WheelEngine.most_for_memory)]
        if options.peers:
            peer_speed = speed * max(1.0, workload.seconds / PEER_S)
            for peer in PEERS:
                peer_workload = workload_of(sample(requests, peer.most), peer_speed)
                peer_run = drive_on(peer, peer_workload, board)
                outcomes.append(figures(peer_run, peer_speed, peer, peer.most_for_memory))
    draw_outcomes(outcomes, wheel.tick_ms, console)
    verdict = account(wheel_run.deadlines, wheel_run.runs, wheel_run.cancels)
    draw_account(verdict, console)
    return 0 if verdict.is_clean else 1


def live_look(address: str | None) -> AbstractContextManager[object]:
    """What `hwheel top` looks at, while the demo runs."""
    if address is None:
        return nullcontext()
    import hwheel.live

    try:
        return hwheel.live.serve(int(address) if address.isdecimal() else address)
    except OSError as error:
        raise CommandError(f"--live: {error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise CommandError(f"--live: {error}") from None


def check_together(options: argparse.Namespace) -> None:
    """Raises CommandError for options that contradict each other; fills in the defaults of a made-up workload."""
    if options.log:
        for name in DEFAULTS:
            if getattr(options, name) is not None:
                raise CommandError(f"--{name.replace('_', '-')} has no meaning with --log")
        return
    for name in ("format", "speed"):
        if getattr(options, name) is not None:
            raise CommandError(f"--{name} needs --log")
    for name, default in DEFAULTS.items():
        if getattr(options, name) is None:
            setattr(options, name, default)
    if options.rate is None:
        options.rate = options.count / ADD_PHASE_S
    shortest_ms, longest_ms = options.timeout_ms
    if shortest_ms > longest_ms:
        raise CommandError(f"--timeout-ms: the first must not be above the second: {shortest_ms:g} > {longest_ms:g}")


def made_up_requests(options: argparse.Namespace) -> list[Request]:
    """The workload that the options describe."""
    return made_up(
        options.count, options.rate, options.cancel_ratio, (options.timeout_ms[0], options.timeout_ms[1]), options.seed
    )


def headline(options: argparse.Namespace, workload: Workload, wheel: Wheel) -> str:
    """What is going to happen, and how long it takes."""
    if options.log:
        what = f"{len(workload):,} requests from {options.log}"
        if options.speed:
            what += f", {options.speed:g} times faster"
    else:
        shortest_s, longest_s = (ms / 1000 for ms in options.timeout_ms)
        what = (
            f"{len(workload):,} requests at {options.rate:,.0f} a second with timeouts of {shortest_s:g} to "
            f"{longest_s:g} s, of which {options.cancel_ratio:.0%} complete in time"
        )
    how_long = f"{workload.seconds:.0f} s" + (", then the peers" if options.peers else "")
    return f"{what}; tick {wheel.tick_ms} ms, {wheel.wheel_size} buckets a level. About {how_long}."


def drive_on(make_engine: "Callable[[], Engine]", workload: Workload, board: "Board") -> "Run":
    """Runs the workload on a new engine, and shows how far it is."""
    from hwheel.cli.demo.drive import drive

    with closing(make_engine()) as engine:
        return drive(engine, workload, board.line(engine.name, len(workload)))


def figures(run: "Run", speed: float, make_engine: "Callable[[], Engine]", count: int) -> "Outcome":
    """The column of the table for a run."""
    from hwheel.cli.demo.memory import bytes_a_timer
    from hwheel.cli.demo.outcome import outcome_of

    return outcome_of(run, speed, bytes_a_timer(make_engine, count))
