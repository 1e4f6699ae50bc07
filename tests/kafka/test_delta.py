"""Exactly-once writes to a Delta table. The test is in this folder because it needs the same pyspark version."""

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("delta_job.py")


def test_repeated_batch_is_in_the_table_once(delta, tmp_path):
    done = subprocess.run(
        [sys.executable, "-P", PROGRAM, delta, tmp_path],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONSAFEPATH": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    once, again = json.loads(done.stdout.splitlines()[-1])
    names = {f"m{i}" for i in range(50)}
    assert once == dict.fromkeys(names, 1)
    assert {*again} == names and set(again.values()) == {2}, "without the options the batch is duplicated"
