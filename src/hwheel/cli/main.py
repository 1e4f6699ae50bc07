"""The parser of the whole command line, and how the command ends.

Exit status: 0, all is well; 1, a demo lost, doubled or hurried a timer, a query failed, the message asked for is not
pending, or the program that `top` looked at has ended; 2, the command was not understood or cannot be carried out; 130,
interrupted.
"""

import argparse
import errno
import os
import platform
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from typing import Any

from hwheel.cli import pending
from hwheel.cli.common import CommandError, Parser
from hwheel.cli.deliver import command as deliver_command
from hwheel.cli.demo import command as demo_command
from hwheel.cli.top import command as top_command
from hwheel.cli.trace import command as trace_command
from hwheel.cli.tune import command as tune_command
from hwheel.extras import MissingExtraError
from hwheel.version import __version__
from hwheel_core import BUILD

LINE_MOST = 400
FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
DESCRIPTION = "Timers for programs that hold very many timeouts: Kafka's hierarchical timing wheel, compiled."

EPILOG = """\
examples:
  hwheel demo                               200,000 request timeouts on a real timer, and what others make of them
  hwheel demo --no-peers --count 1000000    a million, on the wheel alone
  hwheel trace                              seven tasks travel down a wheel, step by step
  hwheel trace --tick 20 --wheel-size 10 --start 0 --delays 5 23 230
  hwheel trace --json                       the same for programs
  hwheel tune log/ --out report             which tick, wheel size and timeout suit a log of timers
  hwheel top /tmp/app.sock                  a live look at the timers of a running program
  hwheel deliver --from in --to out --checkpoint state      messages in files, held until they are due, on Spark

Each command has a --help of its own. demo, trace and top need pip install 'hwheel[cli]', tune 'hwheel[tune]', deliver
and pending 'hwheel[spark]', and say so where something of it is not installed.
"""


def version_text() -> str:
    """The version, and what a report of a fault should say beside it: how the core was built, and what runs it."""
    implementation, system = sys.implementation.name.replace("cpython", "CPython"), platform.system()
    gil = "without the GIL" if sysconfig.get_config_var("Py_GIL_DISABLED") else "with the GIL"
    return (
        f"hwheel {__version__}\ncore: {BUILD}\n"
        f"python: {implementation} {platform.python_version()} {gil}, {system} {platform.machine()}"
    )


def make_parser() -> Parser:
    """The parser of `hwheel`. Each subcommand sets `run`, a function of the parsed options that returns a status."""
    parser = Parser(
        prog="hwheel",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=version_text())
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    demo_command.add_to(commands)
    trace_command.add_to(commands)
    tune_command.add_to(commands)
    deliver_command.add_to(commands)
    pending.add_to(commands)
    top_command.add_to(commands)
    for command in commands.choices.values():
        command.add_argument("--verbose", action="store_true", help="of what goes wrong, show all that is known")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = make_parser()
    options = parser.parse_args(argv)
    if options.run is None:
        parser.print_help(sys.stderr)
        return 2
    say_what_can_be_said(sys.stdout)
    try:
        status: int = options.run(options)
        if sys.stdout is not None:  # closed by who has started this
            sys.stdout.flush()
        return status
    except MissingExtraError as error:
        print(error, file=sys.stderr)
        return 2
    except CommandError as error:
        say(options, str(error), error.details)
        return 2
    except KeyboardInterrupt:
        print(f"{options.prog}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Who read our output has seen enough (`| head`). What is still buffered must not fail again at exit.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        what = " ".join(str(error).split("\n\n")[0].split())[:LINE_MOST]
        if isinstance(error, OSError) and error.errno in FULL:
            say(options, f"cannot write: {error.strerror}", traceback.format_exc())
            return 2
        advice = "that was not foreseen; with --verbose it shows where it happened: please report that"
        say(options, f"{type(error).__name__}: {what}\n{advice}", traceback.format_exc())
        return 2


def say_what_can_be_said(stream: Any) -> None:
    """From now on the stream takes any text: what its encoding does not have, of a name or path, is a question mark."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")


def say(options: argparse.Namespace, lines: str, details: str = "") -> None:
    """What went wrong, and what to do; all that is known, if that is asked for."""
    if options.verbose and details:
        print(details.rstrip(), file=sys.stderr)
    for line in lines.splitlines():
        print(f"{options.prog}: {line}", file=sys.stderr)
