"""`hwheel top`: a live look at the timers of a running program."""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from hwheel.cli.common import CommandError, add_subcommand, positive_number
from hwheel.cli.top.client import EndedError, Program, SilentError
from hwheel.cli.top.ending import ended_in_order
from hwheel.cli.top.place import place_of
from hwheel.cli.top.rates import Rates, rates_between
from hwheel.extras import require

LEAST_INTERVAL_S = 0.1

DESCRIPTION = """\
Shows the timers of a running program, anew each second: how many are pending, added, cancelled and expired a second,
how late they were, and how full the buckets of each level of the wheel are, from now on to the right. Ctrl-C ends it.
Where standard output is no terminal, or one without a cursor, it prints one look, and ends.
"""

EPILOG = """\
The program opens the door, with one line:
  server = hwheel.live.serve("/tmp/app.sock")       all its timers, on a Unix socket of its owner's alone
  server = hwheel.live.serve(9000, timer)           this timer, on port 9000 of this machine

examples:
  hwheel top /tmp/app.sock
  hwheel top 9000                                   also host:9000, or http://127.0.0.1:9000/
  hwheel top /tmp/app.sock --interval 5
  hwheel top /tmp/app.sock --once                   one look, after an interval to count in
  hwheel top /tmp/app.sock --json                   the same for programs
  hwheel demo --live /tmp/demo.sock                 a program to try it on, in another terminal

A browser shows the same at http://127.0.0.1:9000/. Exit status: 0, also when the program has ended meanwhile; with
--once and --json that is 1. 2: nothing answers there.
"""


def add_to(commands: Any) -> None:
    """Adds `top` to the subcommands."""
    parser = add_subcommand(
        commands,
        "top",
        help="a live look at the timers of a running program",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("address", metavar="ADDRESS", help="the path of a Unix socket, a port, host:port, or a URL")
    parser.add_argument(
        "--interval", metavar="S", type=positive_number, default=1.0, help="seconds from look to look (default: 1)"
    )
    parser.add_argument("--once", action="store_true", help="print one look, and end")
    parser.add_argument("--json", action="store_true", help="write one look as JSON, and end")
    parser.set_defaults(run=run, prog=parser.prog)


def run(options: argparse.Namespace) -> int:
    """Shows it. Status 1: the program has ended before there was anything to show."""
    if options.interval < LEAST_INTERVAL_S:
        raise CommandError(f"--interval: must be at least {LEAST_INTERVAL_S:g}, not {options.interval:g}")
    if not options.json:
        require(options.prog, "cli")
    program = Program(place_of(options.address))
    if options.json:
        return show_once(program, options, write_json)
    from rich.console import Console

    from hwheel.cli.top.draw import Page

    console = Console(highlight=False)
    page = Page(console)
    # Rich takes a file for a terminal where FORCE_COLOR is set; and on a dumb one it shows nothing that moves.
    if options.once or not console.file.isatty() or console.is_dumb_terminal:

        def show(look: Mapping[str, Any], rates: Mapping[str, Rates]) -> None:
            console.print(page.draw(look, rates, str(program.place)))

        return show_once(program, options, show)
    try:
        with ended_in_order():
            show_live(program, options.interval, page)
    except EndedError:
        console.print(f"The program has ended (pid {program.pid}).")
    except KeyboardInterrupt:
        pass  # that is how it ends
    return 0


def show_once(program: Program, options: argparse.Namespace, show: Any) -> int:
    """Two looks, for the rates, of which the second is shown."""
    try:
        before = program.look()
        time.sleep(options.interval)
        after = program.look()
    except EndedError:
        print(f"{options.prog}: the program has ended (pid {program.pid})", file=sys.stderr)
        return 1
    except SilentError:
        raise CommandError(f"{program.place}: the program does not answer any more (pid {program.pid})") from None
    show(after, rates_between(before, after))
    return 0


def write_json(look: dict[str, Any], rates: Mapping[str, Rates]) -> None:
    """The look, with "a_second" in each timer: null in a timer that was not there before."""
    for timer in look["timers"]:
        now = rates.get(timer["name"])
        timer["a_second"] = None if now is None else now._asdict()
    print(json.dumps(look))


def show_live(program: Program, interval_s: float, page: Any) -> None:
    """Until the program ends, or who looks has seen enough."""
    from rich.live import Live

    before = look = program.look()
    rates: Mapping[str, Rates] = {}
    state = ""
    with Live(console=page.console, screen=True, auto_refresh=False) as live:
        while True:
            drawn = page.draw(look, rates, str(program.place), state, lines=page.console.height)
            live.update(drawn, refresh=True)
            time.sleep(interval_s)
            try:
                before, look = look, program.look()
                rates, state = rates_between(before, look), ""
            except SilentError:
                state = "does not answer"
