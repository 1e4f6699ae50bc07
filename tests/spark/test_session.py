"""The session of the command."""

import logging
import os
import signal
import subprocess
import sys

import pytest
from pyspark.core import context

from hwheel.spark.session import local
from java_here import java_is_missing


def test_ctrl_c_while_spark_starts_is_ours(monkeypatch, capfd):
    """A SparkContext sets a handler of its own, which raises in the midst of a call to Java."""
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def started(builder, packages):
        context.signal.signal(context.signal.SIGINT, lambda *_: None)  # as SparkContext does
        seen.append(signal.getsignal(signal.SIGINT))
        logging.getLogger("py4j.clientserver").error("a call to Java was interrupted, and here is a traceback")
        raise KeyboardInterrupt

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # as if spark-submit had started Java
    monkeypatch.setattr(local, "started", started)
    level = logging.getLogger("py4j").level
    try:
        with pytest.raises(KeyboardInterrupt):
            local.make_session("local[1]", {}, quiet=True)
    finally:
        found = signal.signal(signal.SIGINT, before)
        logging.getLogger("py4j").setLevel(level)
    assert (seen, found) == ([before], before)
    assert "traceback" not in capfd.readouterr().err
    assert context.signal is signal


JAVA_ENDS = """
import os, signal, threading
from hwheel.spark.session.local import make_session

spark = make_session("local[1]", {"spark.driver.memory": "1g"}, quiet=True)
print("names are in", spark._jvm.java.lang.System.getProperty("sun.jnu.encoding"))
pid = spark._jvm.java.lang.ProcessHandle.current().pid()
ended = threading.Event()

def write(batch, batch_id):
    threading.Timer(1, os.kill, (pid, signal.SIGKILL)).start()
    try:
        spark._jvm.java.lang.Thread.sleep(600_000)
    finally:
        ended.set()

spark.readStream.format("rate").load().writeStream.foreachBatch(write).start()
assert ended.wait(200)
"""


@pytest.mark.slow
@pytest.mark.skipif(java_is_missing() is not None, reason=str(java_is_missing()))
def test_java_knows_all_names_and_leaves_no_traceback_where_it_ends_amid_a_call(tmp_path):
    command, env = [sys.executable, "-P", "-c", JAVA_ENDS], {**os.environ, "LC_ALL": "C"}
    told = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=True)
    assert "names are in UTF-8" in told.stdout
    assert "Traceback" not in told.stderr and "ERROR" not in told.stderr, told.stderr
