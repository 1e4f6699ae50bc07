"""One broker and one Spark session for the folder. A missing requirement skips the tests and is the reason."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "spark")]  # the import mode of the suite leaves them out
JARS = Path(os.environ.get("HWHEEL_KAFKA_JARS", HERE.parents[1] / "build" / "kafka"))
MAVEN_PATIENCE_S = 600

if importlib.util.find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]  # tests/spark/test_import.py reports that pyspark is missing


def pytest_collection_modifyitems(items):
    from local_spark import ignore_socket_warnings

    ignore_socket_warnings(items, HERE)
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kafka)


def fetch_jars(name):
    """Return the directory with the jars of a pom in this folder, fetched once by Maven. Skip the test without it."""
    pom = HERE / f"{name}.xml"
    directory = JARS / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if directory.exists():
        return directory
    if shutil.which("mvn") is None:
        pytest.skip(f"no mvn found, which fetches the jars of tests/kafka/{pom.name}")
    making = directory.with_suffix(f".{os.getpid()}")
    command = ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime"]
    command.append(f"-DoutputDirectory={making}")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_PATIENCE_S, check=False)
        if done.returncode:
            pytest.skip(f"Maven cannot fetch the jars of tests/kafka/{pom.name}: {done.stdout.strip()[:600]}")
        making.rename(directory)
    except subprocess.TimeoutExpired:
        pytest.skip(f"Maven did not fetch the jars of tests/kafka/{pom.name} in {MAVEN_PATIENCE_S} s")
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return directory


@pytest.fixture(scope="session")
def requirements():
    """Skip the test without Java or a Kafka client."""
    import topics  # noqa: F401
    from local_spark import java_problem

    if java_problem() is not None:
        pytest.skip(java_problem())


@pytest.fixture(scope="session")
def connector(requirements):
    """The jars of Spark's Kafka connector, as a value of spark.jars. They fit one version of pyspark."""
    import pyspark

    found = sorted(fetch_jars("connector").glob("*.jar"))
    (version,) = [one.stem.rpartition("-")[2] for one in found if one.name.startswith("spark-sql-kafka")]
    if pyspark.__version__ != version:
        pytest.skip(f"the connector is of version {version}, pyspark {pyspark.__version__} (make test-kafka has both)")
    return ",".join(map(str, found))


@pytest.fixture(scope="session")
def delta(requirements):
    """The jars of Delta, as a value of spark.jars."""
    return ",".join(map(str, sorted(fetch_jars("delta").glob("*.jar"))))


@pytest.fixture(scope="session")
def broker(requirements, tmp_path_factory):
    """A broker, which also has an address that loses answers."""
    from broker import Broker, LossyProxy

    with LossyProxy() as proxy:
        started = Broker(fetch_jars("broker"), tmp_path_factory.mktemp("kafka") / "broker", proxy)
        try:
            yield started
        finally:
            started.kill()


@pytest.fixture(scope="session")
def spark(connector, tmp_path_factory):
    """A local session with the connector. A JVM that is already running cannot load it."""
    from pyspark import SparkContext

    from local_spark import start_session

    if SparkContext._gateway is not None:
        pytest.skip("Spark's JVM runs without the connector: run tests/kafka alone, as make test-kafka does")
    session = start_session(tmp_path_factory.mktemp("warehouse"), **{"spark.jars": connector})
    yield session
    session.stop()
