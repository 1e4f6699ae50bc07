"""The Spark session of the command: its Java, its signals, its errors."""

import logging
import os
import signal
import subprocess
import sys

import pytest
from pyspark.core import context

from hwheel.cli.main import main
from hwheel.spark.session import local
from local_spark import needs_java, run_hwheel

# Java is killed while a foreachBatch function calls it.
JAVA_IS_KILLED = """
import os, signal, threading
from hwheel.spark.session.local import make_session

spark = make_session("local[1]", {"spark.driver.memory": "1g"}, quiet=True)
print("names are in", spark._jvm.java.lang.System.getProperty("sun.jnu.encoding"))
pid = spark._jvm.java.lang.ProcessHandle.current().pid()
ended = threading.Event()

def write(batch, batch_id):
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    try:
        spark._jvm.java.lang.Thread.sleep(600_000)
    finally:
        ended.set()

spark.readStream.format("rate").load().writeStream.foreachBatch(write).start()
assert ended.wait(200)
"""


@pytest.fixture
def fake_java(tmp_path, monkeypatch):
    """fake_java(script): JAVA_HOME names a java that is a shell script."""

    def make(script):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / "java").chmod(0o755)

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return make


def test_interrupt_handler_survives_the_start_of_spark(monkeypatch, capfd):
    """SparkContext installs a handler that raises KeyboardInterrupt in the middle of a call to Java."""
    before = signal.getsignal(signal.SIGINT)
    during = []

    def started(builder, packages):
        context.signal.signal(context.signal.SIGINT, lambda *_: None)  # what SparkContext does
        during.append(signal.getsignal(signal.SIGINT))
        logging.getLogger("py4j.clientserver").error("a call to Java was interrupted, and here is a traceback")
        raise KeyboardInterrupt

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # spark-submit sets this after it has started Java
    monkeypatch.setattr(local, "started", started)
    level = logging.getLogger("py4j").level
    try:
        with pytest.raises(KeyboardInterrupt):
            local.make_session("local[1]", {}, quiet=True)
    finally:
        after = signal.signal(signal.SIGINT, before)
        logging.getLogger("py4j").setLevel(level)
    assert (during, after) == ([before], before)
    assert "traceback" not in capfd.readouterr().err
    assert context.signal is signal


@pytest.mark.slow
@needs_java
def test_killed_java_leaves_no_traceback(tmp_path):
    """Also: Java takes file names for UTF-8 in a locale without an encoding."""
    command, env = [sys.executable, "-P", "-c", JAVA_IS_KILLED], {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=True)
    assert "names are in UTF-8" in done.stdout
    assert "Traceback" not in done.stderr and "ERROR" not in done.stderr, done.stderr


def test_accumulator_server_prints_no_traceback_when_java_is_killed(spark, capsys):
    server = spark.sparkContext._accumulatorServer
    had_own = "handle_error" in vars(server)
    local.no_traces_of_accumulators(spark)
    try:
        raise EOFError
    except EOFError:
        server.handle_error(None, None)
    written = capsys.readouterr()
    if not had_own:
        del server.handle_error
    assert written == ("", "")


@pytest.mark.parametrize("command", [["deliver", "--from", "in", "--to", "out"], ["pending"]])
def test_missing_java_is_one_line_of_advice(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main([*command, "--checkpoint", str(tmp_path / "state")]) == 2
    written = capsys.readouterr()
    assert written.out == "" and written.err.count("\n") == 1
    assert "Spark needs Java 17 or later: install it (Debian" in written.err


@pytest.mark.parametrize(
    ("script", "message"),
    [("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11. Spark needs Java 17"), ("exit 1", "does not run")],
)
def test_unusable_java_is_refused(fake_java, script, message):
    fake_java(script)
    with pytest.raises(local.JavaNotUsableError, match=message):
        local.check_java()


def test_java_without_a_module_that_spark_needs(fake_java, tmp_path):
    fake_java("""
if [ "$1" = -version ]; then echo 'openjdk version "25.0.2"' >&2; exit 0; fi
echo "java.lang.module.FindException: Module jdk.incubator.vector not found" >&2
exit 1""")
    done = run_hwheel("pending", "--checkpoint", "state", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Module jdk.incubator.vector not found\n" in done.stderr, "Java's own error is shown"
    assert "Java did not start Spark" in done.stderr and "install it (Debian" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("output", "version"),
    [('openjdk version "17.0.15"', 17), ('java version "1.8.0_402"', 8), ('openjdk version "21"', 21), ("?", None)],
)
def test_major_version(output, version):
    assert local.major_version(output) == version
