"""The options of ``hwheel top``, and its loop."""

import argparse
import contextlib
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from hwheel.cli.common import CommandError, add_subcommand, positive_number
from hwheel.cli.top.client import EndedError, Program, SilentError, parse_address
from hwheel.cli.top.rates import Rates, rates_between
from hwheel.extras import require

MIN_INTERVAL_S = 0.1

DESCRIPTION = """\
Shows the timers of a running program, updated each second: pending timers,
rates of adds, cancels, and expiries, lateness, and the fill of the buckets of
each level of the wheel, from now on to the right. Press Ctrl-C to end it. If
standard output is not a terminal, or a terminal without a cursor, it prints
one snapshot and ends.
"""

EPILOG = """\
The program opens a socket or a port with one line:
  server = hwheel.live.serve("/tmp/app.sock")    all its timers, on a Unix
                                                 socket that only its owner can
                                                 use
  server = hwheel.live.serve(9000, timer)        one timer, on a local port

examples:
  hwheel top /tmp/app.sock
  hwheel top 9000                                or host:9000, or a URL
  hwheel top /tmp/app.sock --interval 5
  hwheel top /tmp/app.sock --once                one snapshot, with rates
  hwheel top /tmp/app.sock --json                the same for programs
  hwheel demo --live /tmp/demo.sock              a program to try it on

A browser shows the same at http://127.0.0.1:9000/. The exit status is 0, also
after the program has ended, but 1 in that case with --once or --json. It is 2
if no program answers.
"""


def add_to(commands: Any) -> None:
    """Add ``top`` to the subcommands."""
    help = "watch the timers of a running program"
    add = add_subcommand(commands, "top", run, help, (DESCRIPTION, EPILOG)).add_argument
    add("address", metavar="ADDRESS", help="the path of a Unix socket, a port, host:port, or a URL")
    text = "seconds between snapshots (default: 1)"
    add("--interval", metavar="S", type=positive_number, default=1.0, help=text)
    add("--once", action="store_true", help="print one snapshot and end")
    add("--json", action="store_true", help="print one snapshot as JSON and end")


def run(options: argparse.Namespace) -> int:
    """Show the timers. Return 1 if the program ended before the first output."""
    if options.interval < MIN_INTERVAL_S:
        raise CommandError(f"--interval: must be at least {MIN_INTERVAL_S:g}, not {options.interval:g}")
    if not options.json:
        require(options.prog, "cli")
    program = Program(parse_address(options.address))
    if options.json:
        return show_once(program, options, write_json)
    from rich.console import Console

    from hwheel.cli.top.draw import Page

    console = Console(highlight=False)
    page = Page(console)
    # Rich takes a file for a terminal if FORCE_COLOR is set, and it shows nothing that moves on a dumb terminal.
    if options.once or not console.file.isatty() or console.is_dumb_terminal:

        def show(snapshot: Mapping[str, Any], rates: Mapping[str, Rates]) -> None:
            console.print(page.draw(snapshot, rates, str(program.address)))

        return show_once(program, options, show)
    try:
        with exit_on_signals():
            show_live(program, options.interval, page)
    except EndedError:
        console.print(f"The program has ended (pid {program.pid}).")
    except KeyboardInterrupt:
        pass
    return 0


def show_once(program: Program, options: argparse.Namespace, show: Any) -> int:
    """Take two snapshots, and show the second one with the rates between them."""
    try:
        before = program.snapshot()
        time.sleep(options.interval)
        after = program.snapshot()
    except EndedError:
        print(f"{options.prog}: the program has ended (pid {program.pid})", file=sys.stderr)
        return 1
    except SilentError:
        raise CommandError(f"{program.address}: the program does not answer any more (pid {program.pid})") from None
    show(after, rates_between(before, after))
    return 0


def write_json(snapshot: dict[str, Any], rates: Mapping[str, Rates]) -> None:
    """Print the snapshot, with "a_second" in each timer: null in a timer that the first snapshot lacked."""
    for timer in snapshot["timers"]:
        found = rates.get(timer["name"])
        timer["a_second"] = None if found is None else found._asdict()
    print(json.dumps(snapshot))


def show_live(program: Program, interval_s: float, page: Any) -> None:
    """Update the page until the program ends or the user interrupts."""
    from rich.live import Live

    before = snapshot = program.snapshot()
    rates: Mapping[str, Rates] = {}
    state = ""
    with Live(console=page.console, screen=True, auto_refresh=False) as live:
        while True:
            drawn = page.draw(snapshot, rates, str(program.address), state, lines=page.console.height)
            live.update(drawn, refresh=True)
            time.sleep(interval_s)
            try:
                before, snapshot = snapshot, program.snapshot()
                rates, state = rates_between(before, snapshot), ""
            except SilentError:
                state = "does not answer"


@contextlib.contextmanager
def exit_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SystemExit, so that the terminal is restored. Ignored signals stay ignored."""
    before = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                    before[number] = signal.signal(number, _exit)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
