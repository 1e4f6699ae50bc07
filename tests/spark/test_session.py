"""The Spark session of the command: its Java, its signals, its errors."""

import logging
import os
import shutil
import signal
import subprocess
import sys

import pyspark
import pytest
from pyspark.core import context

from hwheel.cli.main import main
from hwheel.spark.session import connector, local
from local_spark import needs_java, run_hwheel

JAVA_HOME = os.environ.get("JAVA_HOME")  # before a test replaces it

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
assert ended.wait(1800)
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


@needs_java
def test_killed_java_leaves_no_traceback(tmp_path):
    """Also: Java takes file names for UTF-8 in a locale without an encoding."""
    command, env = [sys.executable, "-P", "-c", JAVA_IS_KILLED], {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=1800, check=True)
    assert "names are in UTF-8" in done.stdout
    assert "Traceback" not in done.stderr and "ERROR" not in done.stderr, done.stderr


def test_accumulator_server_prints_no_traceback_when_java_is_killed(spark, capsys):
    server = spark.sparkContext._accumulatorServer
    had_own = "handle_error" in vars(server)
    local.silence_accumulator_server(spark)
    try:
        raise EOFError
    except EOFError:
        server.handle_error(None, None)
    written = capsys.readouterr()
    if not had_own:
        del server.handle_error
    assert written == ("", "")


@pytest.mark.parametrize("command", [["deliver", "--from", "in", "--to", "out"], ["pending"]])
def test_missing_java_is_reported_in_one_line(command, tmp_path, monkeypatch, capsys):
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


@needs_java
def test_a_connector_that_is_not_published_is_named_with_the_remedy(tmp_path):
    """Spark looks for the connector in an empty repository only, as if Maven had none for this PySpark."""
    (tmp_path / "in").mkdir()
    (tmp_path / "ivy.xml").write_text(f"""<ivysettings>
  <settings defaultResolver="none"/><caches defaultCacheDir="{tmp_path}/cache"/>
  <resolvers><filesystem name="none"><artifact pattern="{tmp_path}/none/[artifact]"/></filesystem></resolvers>
</ivysettings>""")
    places = ["--from", "in", "--to", "kafka://127.0.0.1:1/now", "--checkpoint", "state"]
    settings = [f"spark.jars.ivySettings={tmp_path}/ivy.xml", f"spark.jars.ivy={tmp_path}/ivy"]
    done = run_hwheel("deliver", *places, *(word for one in settings for word in ("--conf", one)), cwd=tmp_path)
    release = ".".join(pyspark.__version__.split(".")[:2])
    assert done.returncode == 2, done.stderr
    assert f"{connector.package()} was not found, it is not published yet for this PySpark: " in done.stderr
    assert f"install an earlier one, pip install 'pyspark<{release}'\n" in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "state").exists()


@needs_java
@pytest.mark.parametrize("ends_java", [True, False], ids=["the whole group", "the command alone"])
def test_sigterm_while_spark_starts(fake_java, tmp_path, ends_java):
    """A service manager may stop a job at once, together with its Java or alone."""
    receiver = "0" if ends_java else "$(cat pid)"
    fake_java(f"""
if [ "$1" != -version ]; then while [ ! -s pid ]; do sleep 0.1; done; kill -TERM {receiver}; fi
exec {local_java()} "$@"\n""")
    (tmp_path / "in").mkdir()
    command = [sys.executable, "-P", "-m", "hwheel", "deliver", "--from", "in", "--to", "out", "--checkpoint", "state"]
    job = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    (tmp_path / "pid").write_text(str(job.pid))
    said = job.communicate(timeout=1800)[1]
    assert (job.returncode, said.splitlines()[-1]) == (0, "hwheel deliver: stopped before the start"), said
    assert "Traceback" not in said and "bug" not in said
    assert not (tmp_path / "state").exists()


def local_java():
    """Return the java that the tests use."""
    return os.path.join(JAVA_HOME, "bin", "java") if JAVA_HOME else shutil.which("java")


@pytest.mark.parametrize(
    ("output", "version"),
    [('openjdk version "17.0.15"', 17), ('java version "1.8.0_402"', 8), ('openjdk version "21"', 21), ("?", None)],
)
def test_major_version(output, version):
    assert local.major_version(output) == version
