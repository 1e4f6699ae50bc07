"""One local session for all, started when the first test asks for it."""

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # the suite's import mode leaves it out
from java_here import java_is_missing

if importlib.util.find_spec("pyspark") is None:
    collect_ignore_glob = ["test_[!i]*.py"]  # test_import.py says that the others were left out

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.killOnFatalError.depth": "0",  # as the command has it: a task without memory does not end Java
}


def pytest_collection_modifyitems(items):
    """PySpark leaves sockets to the garbage collector; which test is blamed for it is chance."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            for kind in ("pytest.PytestUnraisableExceptionWarning", "ResourceWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore:.*socket.socket:{kind}"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A local session; the test is skipped where there is no Java."""
    missing = java_is_missing()
    if missing:
        pytest.skip(missing)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("hwheel tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    # For the JVM and the workers that it starts.
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("PYTHONSAFEPATH", "1")  # or they import the sources, not compiled, from a checkout
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
