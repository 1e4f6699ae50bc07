"""What commands on Spark have in common: its settings, and what a user can put right, said in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

from hwheel.cli.errors import CommandError


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turns what a user can put right into CommandError: no Java, no connector or topic, other settings than the
    checkpoint's."""
    from hwheel.spark.deliver.options import CheckpointOptionsError
    from hwheel.spark.session.connector import KafkaError
    from hwheel.spark.session.java import JavaNotUsableError

    try:
        yield
    except (KafkaError, JavaNotUsableError, CheckpointOptionsError) as error:
        raise CommandError(str(error)) from None


def settings_of(pairs: list[str], option: str = "--conf") -> dict[str, str]:
    """The settings that `--conf NAME=VALUE` or an option like it names, by name."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CommandError(f"{option} must be NAME=VALUE, not {pair!r}")
        settings[name] = value
    return settings
