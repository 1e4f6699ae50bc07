"""What commands on Spark have in common: its settings, and what a user can put right, said in one line."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from hwheel.cli.errors import CommandError


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turns what ends the work on Spark into CommandError: no Java, no connector or topic, other settings than the
    checkpoint's, and all that Spark itself raises."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from hwheel.spark.deliver.failures import failure_of
    from hwheel.spark.deliver.files import DirectoryError
    from hwheel.spark.deliver.one_job import CheckpointInUseError
    from hwheel.spark.deliver.options import CheckpointOptionsError
    from hwheel.spark.deliver.whole_checkpoint import CheckpointBrokenError
    from hwheel.spark.session.connector import KafkaError
    from hwheel.spark.session.java import JavaNotUsableError

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


def settings_of(pairs: list[str], option: str = "--conf") -> dict[str, str]:
    """The settings that `--conf NAME=VALUE` or an option like it names, by name."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CommandError(f"{option} must be NAME=VALUE, not {pair!r}")
        settings[name] = value
    return settings
