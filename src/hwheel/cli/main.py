"""The parser of the whole command line, and the exit status.

Exit status, except that of `hwheel run`:
    0: success.
    1: a timer of the demo was lost, ended twice, or ran early; a query failed; the requested message is not pending; or
       the program that ``top`` watched has ended.
    2: the command line is wrong, or the command cannot be carried out.
    130: interrupted.
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

from hwheel.cli import letters, move, pending
from hwheel.cli.common import CommandError, Parser
from hwheel.cli.deliver import command as deliver_command
from hwheel.cli.demo import command as demo_command
from hwheel.cli.run import command as run_command
from hwheel.cli.top import command as top_command
from hwheel.cli.trace import command as trace_command
from hwheel.cli.tune import command as tune_command
from hwheel.extras import MissingExtraError
from hwheel.version import __version__
from hwheel_core import BUILD

MAX_LINE_LENGTH = 400
DISK_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
DESCRIPTION = """\
Timers for programs with huge numbers of timeouts: Kafka's hierarchical timing
wheel, compiled.
"""

EPILOG = """\
examples:
  hwheel demo                            request timeouts, compared with peers
  hwheel demo --no-peers --count 1000000
  hwheel trace                           seven tasks travel down a wheel
  hwheel trace --tick 20 --wheel-size 10 --delays 5 23 230
  hwheel tune log/ --out report          find a good tick, wheel size, timeout
  hwheel run server.py                   a program with its timers on the wheel
  hwheel top /tmp/app.sock               watch the timers of a running program
  hwheel deliver --from in --to out --checkpoint state
                                         deliver messages when they are due

Each command has its own --help. demo, trace, and top need
pip install 'hwheel[cli]'; tune needs 'hwheel[tune]'; deliver, pending,
letters, and move need 'hwheel[spark]'.
"""


def version_text() -> str:
    """Return the versions that a bug report needs."""
    implementation, system = sys.implementation.name.replace("cpython", "CPython"), platform.system()
    gil = "without the GIL" if sysconfig.get_config_var("Py_GIL_DISABLED") else "with the GIL"
    return (
        f"hwheel {__version__}\ncore: {BUILD}\n"
        f"python: {implementation} {platform.python_version()} {gil}, {system} {platform.machine()}"
    )


def make_parser() -> Parser:
    """Return the parser. Each subcommand sets ``run``, which takes the options and returns the exit status."""
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
    for command in (
        demo_command,
        run_command,
        trace_command,
        tune_command,
        deliver_command,
        pending,
        letters,
        move,
        top_command,
    ):
        command.add_to(commands)
    for name, subparser in commands.choices.items():
        if name != "run":
            subparser.add_argument("--verbose", action="store_true", help="show the details of errors")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = make_parser()
    options = parser.parse_args(argv)
    if options.run is None:
        parser.print_help(sys.stderr)
        return 2
    status: int
    if options.run is run_command.run:
        status = options.run(options)  # outside of the `try`: the program's output and errors are its own
        return status
    replace_unencodable(sys.stdout)
    try:
        status = options.run(options)
        if sys.stdout is not None:  # None if the parent process closed it
            sys.stdout.flush()
        return status
    except MissingExtraError as error:
        print(error, file=sys.stderr)
        return 2
    except CommandError as error:
        print_error(options, str(error), error.details)
        return 2
    except KeyboardInterrupt:
        print(f"{options.prog}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of the output has ended, as `| head` does. The buffered rest must not fail again at exit.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        return report_unexpected(options, error)


def report_unexpected(options: argparse.Namespace, error: Exception) -> int:
    """Print an error that no command expects, and return the exit status."""
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        print_error(options, f"cannot write: {error.strerror}", traceback.format_exc())
        return 2
    message = " ".join(str(error).split("\n\n")[0].split())[:MAX_LINE_LENGTH]
    advice = "this is a bug: run the command again with --verbose, and report the output"
    print_error(options, f"{type(error).__name__}: {message}\n{advice}", traceback.format_exc())
    return 2


def replace_unencodable(stream: Any) -> None:
    """Make the stream write a question mark for each character that its encoding lacks."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")


def print_error(options: argparse.Namespace, lines: str, details: str = "") -> None:
    """Print an error, and its details if ``--verbose`` is given."""
    if options.verbose and details:
        print(details.rstrip(), file=sys.stderr)
    for line in lines.splitlines():
        print(f"{options.prog}: {line}", file=sys.stderr)
