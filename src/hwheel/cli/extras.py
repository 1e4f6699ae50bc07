"""Spark is an extra, and so is what it runs on."""

from contextlib import contextmanager
from collections.abc import Iterator

from hwheel.cli.errors import CommandError


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turns what a user can put right into CommandError: no pyspark, no Java, no connector or topic, other settings
    than the checkpoint's."""
    try:
        from hwheel.spark.connector import KafkaError
        from hwheel.spark.delivery import OtherSettings
        from hwheel.spark.java import NoJava
    except ImportError as error:
        raise CommandError(f"this needs Spark ({error.name or error}): pip install 'hwheel[spark]'") from None
    try:
        yield
    except (KafkaError, NoJava, OtherSettings) as error:
        raise CommandError(str(error)) from None


def settings_of(pairs: list[str], option: str = "--conf") -> dict[str, str]:
    """--conf NAME=VALUE, ..."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CommandError(f"{option} must be NAME=VALUE, not {pair!r}")
        settings[name] = value
    return settings
