"""Spark's Kafka connector: where it comes from, and whether it is there.

The connector is no part of pyspark. It is jars of the same version, which Spark itself fetches when it starts
(`spark.jars.packages`), or which lie somewhere (`spark.jars`).
"""

from typing import Any

import pyspark
from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

from hwheel_core import HwheelError

CONNECTOR = "spark-sql-kafka-0-10_2.13"
PACKAGES, JARS = "spark.jars.packages", "spark.jars"


class KafkaError(HwheelError, RuntimeError):
    """What keeps a topic from being read or written; the message says what to do."""


def package() -> str:
    """The connector that belongs to this Spark, for spark.jars.packages."""
    return f"org.apache.spark:{CONNECTOR}:{pyspark.__version__}"


def with_connector(settings: dict[str, str]) -> dict[str, str]:
    """The settings of a session, with the connector added to the packages, unless jars were given.

    spark.jars.packages set to nothing says that the connector is there already.
    """
    packages = settings.get(PACKAGES)
    if JARS in settings or packages == "" or CONNECTOR in (packages or ""):
        return settings
    return {**settings, PACKAGES: f"{packages},{package()}" if packages else package()}


def check_connector(spark: SparkSession) -> None:
    """Raises KafkaError where the session has no connector."""
    jvm: Any = spark._jvm
    for name in (jvm.org.apache.spark.sql.kafka010.KafkaSourceProvider, jvm.org.apache.kafka.clients.admin.Admin):
        if not isinstance(name, JavaClass):
            raise KafkaError(
                f"Spark's Kafka connector is not there: give --packages {package()} to spark-submit, or name its jars "
                f"with --conf {JARS}=..."
            )


def cannot_fetch(packages: str) -> str:
    """What to do where Spark does not start with packages to fetch."""
    return (
        f"Spark did not start, and says why above. If it cannot fetch {packages}: bring their jars here, and name them "
        f"with --conf {JARS}=FILE,FILE"
    )
