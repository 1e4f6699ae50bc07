"""A Spark cluster for each test."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "spark")]  # the import mode of the suite leaves them out

# `nox -s cluster` sets HWHEEL_CLUSTER. The tests start seven Java processes, too many beside other tests.
if "HWHEEL_CLUSTER" not in os.environ or importlib.util.find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def cluster(tmp_path):
    """A master and two workers. Skips the test without Java."""
    from local_spark import java_problem

    if (missing := java_problem()) is not None:
        pytest.skip(missing)
    from standalone import Cluster

    cluster = Cluster(tmp_path / "cluster")
    yield cluster
    cluster.kill()
