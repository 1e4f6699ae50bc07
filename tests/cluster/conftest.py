"""A cluster for a test that asks for one."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "spark")]  # the suite's import mode leaves them out

# `make test` leaves them to `make test-cluster`, because seven processes of Java want a machine for themselves.
if "HWHEEL_CLUSTER" not in os.environ or importlib.util.find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def cluster(tmp_path):
    """A master and two workers; the test is skipped where there is no Java."""
    from local_spark import java_problem

    if (missing := java_problem()) is not None:
        pytest.skip(missing)
    from standalone import Cluster

    cluster = Cluster(tmp_path / "cluster")
    yield cluster
    cluster.kill()
