"""Why a query has ended, in two lines for whoever started it: what happened, and what to do."""

import re
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from hwheel_core import HwheelError

LINE_MOST = 400
WORKER_LATE = "Python worker failed to connect back"
WORKER_KILLED = "Python worker exited unexpectedly"
GO_ON = "start it again to go on, nothing is lost by that; with --verbose it shows all that Spark says"
OTHER_JOB = "another job runs on this checkpoint"
ONE_JOB = "let only one of them run; what it holds is not harmed"
BROKEN_CHECKPOINT = "the checkpoint lacks something, or cannot be read: {said}"
# As what comes from Java is raised here: PySpark has classes of its own for some of it, and all else, a task that has
# failed for one, is Py4J's.
FROM_JAVA = (PySparkException, Py4JJavaError)
RESTORE = "put back what was there from a copy; where there is none, start with a new checkpoint and a new output"

# What is looked for in all that was said, and the two lines. The first that is found counts.
KNOWN = [
    (r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming jobs detected", OTHER_JOB, ONE_JOB),
    (
        r"No space left on device|Disk quota exceeded",
        "a disk is full: that of the output, the checkpoint, or of Spark's own files (SPARK_LOCAL_DIRS, or /tmp)",
        "make room and start it again: nothing is lost",
    ),
    (
        r"OutOfMemoryError|GC overhead limit",
        "Java ran out of memory",
        "start it again with more: --conf spark.driver.memory=4g, or on a cluster --conf spark.executor.memory=4g; "
        "--files-a-batch or --offsets-a-batch makes batches smaller",
    ),
    (
        r"KAFKA_DATA_LOSS|OffsetOutOfRange|Some data may have been lost",
        "the topic no longer has the records that come next: its retention was over before they were read, or it was "
        "made anew",
        "--skip-lost-offsets goes on with those that there are",
    ),
    (
        r"RecordTooLargeException",
        "a message is larger than the topic or its producer takes",
        "allow more: --kafka-conf max.request.size=BYTES, and max.message.bytes of the topic",
    ),
    (
        WORKER_KILLED,
        "a Python worker of Spark's was killed, or had no memory",
        "start it again, nothing is lost by that; --files-a-batch or --offsets-a-batch makes batches smaller",
    ),
    (r"AccessControlException|Permission denied", "Spark may not read or write here", "{said}"),
    (
        r"STDS_INVALID_OPTION_VALUE",
        "the checkpoint is of a query without hold_until_due",
        "name the one of `hwheel deliver`, or of a query of your own that holds messages",
    ),
    (
        r"STDS_COMMITTED_BATCH_UNAVAILABLE|STDS_FAILED_TO_READ_OPERATOR_METADATA",
        "the query of this checkpoint has not completed a batch yet",
        "ask again in some seconds, while it runs",
    ),
    (
        r"CANNOT_LOAD_STATE_STORE|CANNOT_READ_(?:MISSING|DELTA|SNAPSHOT)|FAILED_TO_GET_CHANGELOG|"
        r"STREAM(?:ING)?_CHECKPOINT|STREAMING_STATEFUL_OPERATOR_MISSING|STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY|"
        r"batch \d+ doesn't exist|CheckpointFileManager.*FileNotFound|Incomplete log file|Failed to read log file|"
        r"com\.fasterxml\.jackson\.[\w.]+Exception",
        BROKEN_CHECKPOINT,
        RESTORE,
    ),
    (
        r"stateful_processor_api_client[\s\S]*\nEOFError",
        "Spark could not write the state, or read it: the disk of the checkpoint, or of Spark's own files "
        "(SPARK_LOCAL_DIRS, or /tmp), may be full",
        "see that there is room, and start it again: nothing is lost",
    ),
]


@dataclass(frozen=True)
class Failure:
    """Two lines, and all that was said. `file`: the input file that could not be read, if it was that."""

    what: str
    advice: str
    details: str
    file: str | None = None

    def __str__(self) -> str:
        return f"{self.what}\n{self.advice}"


def failure_of(error: BaseException | JavaObject) -> Failure:
    """Of an exception of Python's or of Java's."""
    if isinstance(error, HwheelError):
        what, _, advice = str(error).partition("\n")
        return Failure(what, advice or GO_ON, str(error))
    java = error if isinstance(error, JavaObject) else origin(error)
    chain = causes(java) if java is not None else []
    details = "\n".join([*map(str, chain), "" if isinstance(error, JavaObject) else str(error)]).strip()
    for cause in reversed(chain):
        if (file := unreadable_file(cause)) is not None:
            why = one_line(said(chain))
            return Failure(
                f"{file} cannot be read: {why}",
                "see that the file can be read; it is left out if it is the file that is broken",
                details,
                file,
            )
    innermost = one_line(said(chain) if chain else last_of_traceback(str(error)))
    for pattern, what, advice in KNOWN:
        if re.search(pattern, details):
            return Failure(what.format(said=innermost), advice.format(said=innermost), details)
    return Failure(innermost, GO_ON, details)


def origin(error: BaseException) -> Any:
    """What was raised in Java, if it was there."""
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    for one in (
        error,
        getattr(error, "_cause", None),
    ):  # a query's own exception is of Python's, with a cause of Java's
        if isinstance(found := getattr(one, "_origin", None), JavaObject):
            return found
    return None


def causes(error: Any) -> list[Any]:
    """An exception of Java's and those behind it, the innermost last."""
    found: list[Any] = []
    while error is not None and len(found) < 50:
        found.append(error)
        error = error.getCause()
    return found


def said(chain: list[Any]) -> str:
    """What is said by the innermost exception that says anything."""
    for cause in reversed(chain):
        if message := cause.getMessage():
            return last_of_traceback(str(message))
    return str(chain[0].getClass().getName())


def last_of_traceback(text: str) -> str:
    """Of a message with a traceback of Python's in it, the last line of that: what was raised."""
    if "Traceback (most recent call last)" not in text:
        return text
    lines = [line for line in text.split("Traceback (most recent call last)")[-1].splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+: |[\w.]+(?:Error|Exception|Interrupt)$", line)]
    return (raised or lines)[-1] if lines else text


def one_line(text: str) -> str:
    """The first paragraph, on one line, no longer than is read."""
    line = " ".join(re.split(r"\n\n|\n==", text.strip())[0].split())
    line = re.sub(r"\s*SQLSTATE: \w+$", "", line)
    return line if len(line) <= LINE_MOST else line[:LINE_MOST] + "..."


def unreadable_file(cause: Any) -> str | None:
    """The file that an exception says could not be read."""
    found = re.search(
        r"\[FAILED_READ_FILE\b.*?Encountered error while reading file (\S+?)\.\s", f"{cause.getMessage()} "
    )
    return found[1] if found else None
