"""Local Spark sessions for tests."""

import os
import shutil
import subprocess
import sys
from functools import cache

import pytest

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    # The tests fill the 48 MiB of a code cache for C1 alone, and then Java compiles and drops the same code again.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=200m",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.executor.killOnFatalError.depth": "0",  # as in `hwheel deliver`: a task without memory does not end Java
}


@cache
def java_problem():
    """Return why Spark cannot start Java here, or None."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.path.exists(java):
        return "no Java found: Spark needs Java 17 or later (Debian, Ubuntu: apt install openjdk-17-jre-headless)"
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"{java} -version fails: {done.stderr}"


needs_java = pytest.mark.skipif(java_problem() is not None, reason=str(java_problem()))


def start_session(warehouse, **settings):
    """Start a session on two local cores. Skip the test without Java."""
    if java_problem() is not None:
        pytest.skip(java_problem())
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("hwheel tests")
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(warehouse), **settings}.items():
        builder = builder.config(name, value)
    # The JVM and its Python workers inherit these. Without PYTHONSAFEPATH, workers would import the uncompiled sources.
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("PYTHONSAFEPATH", "1")
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def run_hwheel(*arguments, cwd, **env):
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "hwheel", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=1800,
        env={**os.environ, **env},
        check=False,
    )


def ignore_socket_warnings(items, directory):
    """PySpark leaves sockets to the garbage collector, so their warnings hit tests at random."""
    for item in items:
        if directory in item.path.parents:
            for kind in ("pytest.PytestUnraisableExceptionWarning", "ResourceWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore:.*socket.socket:{kind}"))
