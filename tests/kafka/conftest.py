"""One broker and one Spark session for all, started when the first test asks for them. What cannot be had here skips
the tests, and the reason says what it is.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "spark")]  # the suite's import mode leaves them out

if any(importlib.util.find_spec(name) is None for name in ("pyspark", "confluent_kafka")):
    collect_ignore_glob = ["test_[!w]*.py"]  # test_what_is_missing.py says so

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def pytest_collection_modifyitems(items):
    """Marks them all; and PySpark leaves sockets to the garbage collector: which test is blamed for it is chance."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kafka)
            for kind in ("pytest.PytestUnraisableExceptionWarning", "ResourceWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore:.*socket.socket:{kind}"))


def had(name):
    """The jars, or a skipped test."""
    from jars import NoKafka, jars

    try:
        return jars(name)
    except NoKafka as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def java():
    """That Java is there."""
    if shutil.which("java") is None:
        pytest.skip("no java found, which runs Kafka and Spark (Debian, Ubuntu: apt install openjdk-17-jre-headless)")
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    if told.returncode:
        pytest.skip(f"java -version fails: {told.stderr}")


@pytest.fixture(scope="session")
def connector(java):
    """The jars of Spark's connector, as spark.jars wants them; they go with one version of pyspark."""
    import pyspark

    found = sorted(had("connector").glob("*.jar"))
    (version,) = [one.stem.rpartition("-")[2] for one in found if one.name.startswith("spark-sql-kafka")]
    if pyspark.__version__ != version:
        pytest.skip(f"the connector is of version {version}, pyspark {pyspark.__version__} (make test-kafka has both)")
    return ",".join(map(str, found))


@pytest.fixture(scope="session")
def delta(java):
    """The jars of Delta, as spark.jars wants them."""
    return ",".join(map(str, sorted(had("delta").glob("*.jar"))))


@pytest.fixture(scope="session")
def broker(java, tmp_path_factory):
    """The broker, with a listener that loses answers."""
    from broker import Broker
    from lossy import LossyProxy

    with LossyProxy() as proxy:
        one = Broker(had("broker"), tmp_path_factory.mktemp("kafka") / "broker", proxy)
        try:
            yield one
        finally:
            one.kill()


@pytest.fixture(scope="session")
def spark(connector, tmp_path_factory):
    """A local session with the connector. A JVM that other tests have started has no place for it any more."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONSAFEPATH"] = "1"
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._gateway is not None:
        pytest.skip("Spark's JVM runs without the connector already: run tests/kafka by themselves, as make test-kafka")
    builder = SparkSession.builder.master("local[2]").appName("hwheel's Kafka tests").config("spark.jars", connector)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
