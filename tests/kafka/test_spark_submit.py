"""`hwheel deliver` under spark-submit, which provides the master and the connector."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

import hwheel.__main__
from programs import GuardedProcess
from topics import Reader, RetryingProducer, as_json, headers_of

SUBMIT = Path(sys.executable).parent / "spark-submit"
CONF = [
    "spark.ui.enabled=false",
    "spark.driver.memory=700m",
    "spark.driver.host=127.0.0.1",
    "spark.driver.bindAddress=127.0.0.1",
    "spark.executor.memory=600m",
]


@pytest.fixture
def submit(connector, tmp_path):
    """submit(options of spark-submit, options of deliver): a running job, which is killed at the end."""
    running = []

    def start(options, deliver):
        conf = [word for setting in CONF for word in ("--conf", setting)]
        job = GuardedProcess(
            [SUBMIT, *options, *conf, "--jars", connector, hwheel.__main__.__file__, "deliver", *deliver],
            tmp_path / "log",
            cwd=tmp_path,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
        running.append(job)
        return job

    yield start
    for job in running:
        job.kill()


def test_executors_in_separate_processes(broker, submit, tmp_path):
    source, to = broker.make_topic("s-in", 2), broker.make_topic("s-out", 2)
    broker.make_topic("s-out-dead-letters")
    soon = int(time.time() * 1000)
    messages = [{"id": f"m{i}", "key": f"k{i % 5}", "due": soon + i, "payload": "p"} for i in range(100)]
    RetryingProducer(broker.servers).send("s-in", as_json(*messages))
    job = submit(
        ["--master", "local-cluster[2,1,700]"],
        ["--from", source, "--to", to, "--checkpoint", str(tmp_path / "state"), "--partitions", "2"],
    )
    out = Reader(broker, "s-out")
    try:

        def alive():
            assert job.process.poll() is None, (tmp_path / "log").read_text()[-4000:]

        found = out.until(lambda found: len(found) >= 100, alive)
    finally:
        out.close()
    assert sorted(headers_of(one)["id"] for one in found) == sorted(one["id"] for one in messages)
    assert all(json.loads(one.value())["due"] <= one.timestamp()[1] for one in found)
