"""Spark's Kafka connector: its package, and a check that the session has it.

pyspark does not contain the connector. Spark downloads its jars at the start (`spark.jars.packages`), or loads them
from files (`spark.jars`). Their version must be that of pyspark.
"""

from typing import Any

import pyspark
from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

from hwheel_core import HwheelError

CONNECTOR = "spark-sql-kafka-0-10_2.13"
PACKAGES, JARS = "spark.jars.packages", "spark.jars"


class KafkaError(HwheelError, RuntimeError):
    """A topic cannot be read or written. The message says what to do."""


def package() -> str:
    """Return the connector of this version of Spark for spark.jars.packages."""
    return f"org.apache.spark:{CONNECTOR}:{pyspark.__version__}"


def with_connector(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings of a session with the connector among the packages, unless jars are given.

    If spark.jars.packages is empty, the connector is installed already.
    """
    packages = settings.get(PACKAGES)
    if JARS in settings or packages == "" or CONNECTOR in (packages or ""):
        return settings
    return {**settings, PACKAGES: f"{packages},{package()}" if packages else package()}


def check_connector(spark: SparkSession) -> None:
    """Raise KafkaError if the session has no connector."""
    jvm: Any = spark._jvm
    for name in (jvm.org.apache.spark.sql.kafka010.KafkaSourceProvider, jvm.org.apache.kafka.clients.admin.Admin):
        if not isinstance(name, JavaClass):
            raise KafkaError(
                f"Spark's Kafka connector is missing: give --packages {package()} to spark-submit, or name its jars "
                f"with --conf {JARS}=..."
            )


def cannot_fetch(packages: str) -> str:
    """Return the error message for a Spark that does not start with packages to download."""
    release = ".".join(pyspark.__version__.split(".")[:2])
    return (
        f"Spark did not start, for the reason above. If {package()} was not found, it is not published yet for this "
        f"PySpark: install an earlier one, pip install 'pyspark<{release}'\n"
        f"If Spark cannot download {packages}, copy the jars to this machine and name them with --conf {JARS}=FILE,FILE"
    )
