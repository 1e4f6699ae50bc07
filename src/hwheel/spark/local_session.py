"""The session of the command: that of spark-submit, or a local one of its own."""

import os
import sys

from pyspark.sql import SparkSession

from hwheel.spark.java import check_java

# No address but the machine's own, no web server, few and small shuffles.
LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def make_session(master: str | None, settings: dict[str, str]) -> SparkSession:
    """A session. Raises NoJava where one would have to be started and cannot."""
    builder = SparkSession.builder.appName("hwheel")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:        # spark-submit sets it, and has chosen everything else as well
        check_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYTHONSAFEPATH", "1")    # workers import nothing from wherever this was started
        master = master or "local[*]"
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings = LOCAL | settings
    if master:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
