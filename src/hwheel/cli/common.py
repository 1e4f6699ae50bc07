"""The parser, option types, and errors that all subcommands share."""

import argparse
import math
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn

from hwheel_core import HwheelError

MAX_WHEEL_SIZE = 1_048_576
INT64_MAX = 2**63 - 1


# --- errors -----------------------------------------------------------------------------------------------------------


class CommandError(HwheelError):
    """An error that the user can correct.

    The command prints each line of the message and exits with status 2.

    Args:
        details: Text that only ``--verbose`` prints.
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn expected errors of Spark, Java, Kafka, and checkpoints into CommandError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from hwheel.spark.deliver.checkpoint import CheckpointBrokenError, CheckpointInUseError
    from hwheel.spark.deliver.directory import DirectoryError
    from hwheel.spark.deliver.failures import failure_of
    from hwheel.spark.deliver.settings import CheckpointOptionsError
    from hwheel.spark.session.connector import KafkaError
    from hwheel.spark.session.local import JavaNotUsableError

    try:
        yield
    except (
        KafkaError,
        JavaNotUsableError,
        CheckpointOptionsError,
        CheckpointInUseError,
        CheckpointBrokenError,
        DirectoryError,
    ) as error:
        raise CommandError(str(error)) from None
    except (PySparkException, Py4JError) as error:
        failure = failure_of(error)
        raise CommandError(str(failure), f"{traceback.format_exc()}\n{failure.details}") from None


@contextmanager
def spark_session(options: argparse.Namespace, defaults: Mapping[str, str] = {}) -> Iterator[Any]:
    """Start the session of --master and --conf, and stop it. Expected errors become CommandError."""
    settings = {**defaults, **settings_of(options.conf)}
    with spark_errors():
        from hwheel.spark.session.local import make_session

        spark = make_session(options.master, settings, quiet=not options.verbose)
        try:
            yield spark
        finally:
            spark.stop()


# --- the parser -------------------------------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that reports an error as one line, without the usage, and exits with status 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def add_subcommand(commands: Any, name: str, run: Callable[..., int], help: str, texts: tuple[str, str]) -> Any:
    """Add the parser of ``hwheel NAME``.

    Args:
        run: Takes the options and returns the exit status.
        texts: The description and the epilog, whose line breaks are kept.
    """
    parser = commands.add_parser(
        name,
        help=help,
        description=texts[0],
        epilog=texts[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, prog=parser.prog)
    return parser


def add_spark_options(add: Callable[..., object]) -> None:
    """Add the options of a Spark session. add: the method ``add_argument`` of a parser or group."""
    add("--master", metavar="URL", help="Spark master (default: local[*], or that of spark-submit)")
    add("--conf", metavar="NAME=VALUE", action="append", default=[], help="Spark setting; can be repeated")


def serve_live(address: str | None) -> AbstractContextManager[object]:
    """Serve snapshots for ``hwheel top`` until the context manager or the program ends."""
    if address is None:
        return nullcontext()
    import hwheel.live

    try:
        return hwheel.live.serve(int(address) if address.isdecimal() else address)
    except OSError as error:
        raise CommandError(f"--live: {error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise CommandError(f"--live: {error}") from None


# --- option types -----------------------------------------------------------------------------------------------------


def whole_number(minimum: int, maximum: int = INT64_MAX) -> Callable[[str], int]:
    """Return an option type: an int from ``minimum`` to ``maximum``. Underscores between digits are allowed."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if not minimum <= value <= maximum:
            bounds = f"at least {minimum}" if maximum == INT64_MAX else f"from {minimum} to {maximum}"
            raise argparse.ArgumentTypeError(f"must be {bounds}, not {value}")
        return value

    return parse


def size(text: str) -> int:
    """Parse a size such as "1MB", "500 kB", or a number of bytes."""
    parts = re.fullmatch(r"\s*(\d+)\s*([kMG]?)B?\s*", text, re.ASCII | re.IGNORECASE)
    if parts is None:
        raise argparse.ArgumentTypeError(f'must be a size like "1MB" or "500kB", not {text!r}')
    value: int = int(parts[1]) * 1000 ** " kmg".index(parts[2].lower() or " ")
    if not 100 <= value <= 1_000_000_000:
        raise argparse.ArgumentTypeError(f"must be from 100B to 1GB, not {text!r}")
    return value


def number(text: str) -> float:
    """Parse a finite number."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"must be finite, not {text}")
    return value


def positive_number(text: str) -> float:
    """Parse a finite number above zero."""
    value = number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be above 0, not {text}")
    return value


def ratio(text: str) -> float:
    """Parse a number from 0 to 1."""
    value = number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to 1, not {text}")
    return value


def settings_of(pairs: list[str], option: str = "--conf") -> dict[str, str]:
    """Parse the values of ``--conf NAME=VALUE`` or of a similar option."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CommandError(f"{option} must be NAME=VALUE, not {pair!r}")
        settings[name] = value
    return settings
