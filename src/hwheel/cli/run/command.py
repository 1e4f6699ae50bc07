"""The options of ``hwheel run``."""

import argparse
import os
import sys
from typing import Any

from hwheel.cli.common import CommandError, add_subcommand, serve_live
from hwheel.cli.run.program import run_program

LOOPS = ("asyncio", "uvloop", "zuvloop")
MODULES = ("asyncio", "threading", "sched")

DESCRIPTION = """\
Run a program with its timers on the wheel, without an edit: all event loops of
asyncio, uvloop, and zuvloop; asyncio.timeout(), timeout_at(), and wait_for();
threading.Timer; and sched.scheduler. Arguments, output, errors, and the exit
status are the program's own.
"""

EPILOG = """\
examples:
  hwheel run server.py --port 8080
  hwheel run -m uvicorn --workers 4 app:app
  hwheel run --loop uvloop --live /tmp/app.sock server.py
  hwheel run --only threading,sched -m pytest tests

Children of multiprocessing and of os.fork() run on the wheel, too; programs
that a program starts in other ways do not.
"""


def add_to(commands: Any) -> None:
    """Add ``run`` to the subcommands."""
    help = "run a program with its timers on the wheel"
    add = add_subcommand(commands, "run", run, help, (DESCRIPTION, EPILOG)).add_argument
    add("--loop", choices=LOOPS, help="event loop of a program that chooses none (default: asyncio)")
    text = "modules whose timers to replace (default: asyncio,threading,sched)"
    add("--only", metavar="MODULES", type=modules, default=MODULES, help=text)
    add("--live", metavar="ADDRESS", help="serve snapshots at this address, for `hwheel top`")
    add("-m", dest="is_module", action="store_true", help="PROGRAM is the name of a module")
    add("program", metavar="PROGRAM", nargs=argparse.PARSER, help="a script or a module, and its arguments")


def modules(text: str) -> tuple[str, ...]:
    """Parse the value of --only."""
    names = tuple(text.split(","))
    for name in names:
        if name not in MODULES:
            raise argparse.ArgumentTypeError(f"must be some of {', '.join(MODULES)}, not {name!r}")
    return names


def run(options: argparse.Namespace) -> int:
    """Run the program, whose exceptions pass through. Return 2 if it cannot be run."""
    try:
        prepare(options)
    except CommandError as error:
        print(f"{options.prog}: {error}", file=sys.stderr)
        return 2
    run_program(options.program, options.is_module)
    return 0


def prepare(options: argparse.Namespace) -> None:
    """Patch this process. Raise CommandError if an option or the script cannot be used."""
    if options.loop and "asyncio" not in options.only:
        raise CommandError("--loop needs asyncio in --only")
    path = options.program[0]
    if not options.is_module and not os.path.isdir(path):
        try:
            open(path, "rb").close()
        except OSError as error:
            raise CommandError(f"cannot open {path!r}: {error.strerror}") from None
    from hwheel.cli.run.patches import patch

    try:
        patch(options.loop or "asyncio", options.only)
    except ModuleNotFoundError as error:
        raise CommandError(f"--loop: {error}: pip install {options.loop}") from None
    serve_live(options.live)
