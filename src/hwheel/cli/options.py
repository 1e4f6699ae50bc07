"""A parser whose errors are one line, and the types of option values."""

import argparse
import math
from collections.abc import Callable
from typing import Any, NoReturn

WHEEL_SIZE_MOST = 1_048_576
INT64_MOST = 2**63 - 1


class Parser(argparse.ArgumentParser):
    """argparse's, but an error is one line without the usage in front of it. Exit status 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def add_subcommand(commands: Any, name: str, *, help: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """A parser of its own for `hwheel NAME`, whose texts stand as they are written."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser


def whole_number(least: int, most: int = INT64_MOST) -> Callable[[str], int]:
    """The type of an option: an int from least to most; 200_000 may be written so."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if not least <= value <= most:
            bounds = f"at least {least}" if most == INT64_MOST else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"must be {bounds}, not {value}")
        return value

    return parse


def number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"must be finite, not {text}")
    return value


def positive_number(text: str) -> float:
    """A finite number above zero."""
    value = number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be above 0, not {text}")
    return value


def ratio(text: str) -> float:
    """A number from 0 to 1."""
    value = number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to 1, not {text}")
    return value
