"""One local Spark session for the folder, and deliveries that are stopped at the end of a test."""

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # the import mode of the suite leaves it out
from local_spark import ignore_socket_warnings, start_session

if importlib.util.find_spec("pyspark") is None:
    collect_ignore_glob = ["test_[!i]*.py"]  # test_import.py reports that the other tests were left out


def pytest_collection_modifyitems(items):
    ignore_socket_warnings(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    session = start_session(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


@pytest.fixture
def deliveries(spark, tmp_path, monkeypatch):
    """Deliveries from `in` to `out` and `dead`, with the checkpoint in `state`."""
    from deliveries import Deliveries
    from hwheel.spark.deliver import delivery, rest

    # On a busy machine, Python workers exceed Spark's limit of ten seconds.
    monkeypatch.setattr(delivery, "STARTS", 1000)
    monkeypatch.setattr(rest, "LONGEST_WAIT_S", 0.5)  # tests wait for the commit of an empty batch
    started = Deliveries(spark, tmp_path)
    yield started
    started.stop()
