"""Spark's Kafka connector: where it comes from, whether it is there, and whether the brokers have the topics.

The connector is no part of pyspark. It is jars of the same version, which Spark itself fetches when it starts
(`spark.jars.packages`), or which lie somewhere (`spark.jars`).
"""

from typing import Any

import pyspark
from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from hwheel.spark.topic import KafkaOptions, Topic

CONNECTOR = "spark-sql-kafka-0-10_2.13"
PACKAGES, JARS = "spark.jars.packages", "spark.jars"
ANSWER_WITHIN_MS = "20000"
PACKAGE_ERRORS = "org.apache.kafka.common.errors."


class KafkaError(RuntimeError):
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


def check_topic(spark: SparkSession, topic: Topic, options: KafkaOptions) -> None:
    """Raises KafkaError where no broker answers, or has no such topic."""
    jvm: Any = spark._jvm
    properties = jvm.java.util.Properties()
    conf = {"default.api.timeout.ms": ANSWER_WITHIN_MS, "request.timeout.ms": ANSWER_WITHIN_MS, **options.conf}
    for name, value in {**conf, "bootstrap.servers": topic.brokers}.items():
        properties.setProperty(name, value)
    names = jvm.java.util.ArrayList()
    names.add(topic.name)
    try:
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
        try:
            admin.describeTopics(names).allTopicNames().get()
        finally:
            admin.close()
    except Py4JJavaError as error:
        raise KafkaError(why(error.java_exception, topic)) from None


def why(error: Any, topic: Topic) -> str:
    """In one line."""
    while (cause := error.getCause()) is not None:
        error = cause
    kind = error.getClass().getName().removeprefix(PACKAGE_ERRORS)
    if kind == "UnknownTopicOrPartitionException":
        return f"there is no topic {topic.name} at {topic.brokers}: make it first"
    if kind == "TimeoutException":
        return f"no broker answers at {topic.brokers}"
    return f"{topic}: {' '.join(str(error.getMessage()).split())}"
