"""The reasons why a query ended, as two lines for the user: the fault, and the remedy."""

import re
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from hwheel_core import HwheelError

MAX_LINE_LENGTH = 400
WORKER_LATE = "Python worker failed to connect back"
WORKER_KILLED = "Python worker exited unexpectedly"
WORKERS_KILLED = "pyspark.daemon's stdout"  # the process that starts the workers was killed
GO_ON = "start again to continue, nothing is lost; --verbose shows all messages of Spark"
JAVA_ENDED = "Java, on which Spark runs, has ended: it was killed or ran out of memory"
OTHER_JOB = "another job runs on this checkpoint"
ONE_JOB = "stop one of them; its messages are safe"
BROKEN_CHECKPOINT = "the checkpoint is incomplete or cannot be read: {said}"
RESTORE = (
    "restore the checkpoint from a copy, together with its outputs and its input of the same time, or start with a new "
    "checkpoint and a new output"
)
# PySpark has its own classes for some exceptions of Java. Py4J raises the others, such as those of a failed task.
FROM_JAVA = (PySparkException, Py4JJavaError)

# (pattern to search for in all messages of an exception, fault, remedy). The first match counts.
KNOWN_FAILURES = [
    (r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming jobs detected", OTHER_JOB, ONE_JOB),
    (
        r"No space left on device|Disk quota exceeded",
        "a disk is full: of the output, of the checkpoint, or of Spark's temporary files (SPARK_LOCAL_DIRS, or /tmp)",
        "free some space and start again: nothing is lost",
    ),
    (
        r"OutOfMemoryError|GC overhead limit",
        "Java ran out of memory",
        "start again with more memory: --conf spark.driver.memory=4g, or on a cluster --conf spark.executor.memory=4g; "
        "--files-a-batch or --offsets-a-batch makes batches smaller",
    ),
    (
        # Py4J names no exception of Java, because Java did not respond.
        r"\AAn error occurred while calling [\w.]+\Z|Answer from Java side is empty",
        JAVA_ENDED,
        GO_ON,
    ),
    (
        r"SparkContext was shut ?down|SparkContext has been shutdown|stopped SparkContext|Shutdown in progress",
        "Spark was stopped, for example by a signal",
        GO_ON,
    ),
    (
        r"KAFKA_DATA_LOSS|OffsetOutOfRange|Some data may have been lost",
        "the topic no longer has the next records: its retention ended before they were read, or it was created again",
        "--skip-lost-offsets continues with the records that exist",
    ),
    (
        r"RecordTooLargeException",
        "a message is larger than the topic or its producer allows",
        "raise the limits: --kafka-conf max.request.size=BYTES, and max.message.bytes of the topic",
    ),
    (
        f"{WORKER_KILLED}|{WORKERS_KILLED}",
        "a Python worker of Spark was killed or ran out of memory",
        "start again, nothing is lost; --files-a-batch or --offsets-a-batch makes batches smaller",
    ),
    (r"AccessControlException|Permission denied", "Spark lacks permission to read or write", "{said}"),
    (
        r"STDS_INVALID_OPTION_VALUE",
        "the checkpoint belongs to a query without hold_until_due",
        "give the checkpoint of `hwheel deliver`, or of a query with hold_until_due",
    ),
    (
        r"STDS_COMMITTED_BATCH_UNAVAILABLE|STDS_FAILED_TO_READ_OPERATOR_METADATA",
        "the query of this checkpoint has not completed a batch yet",
        "try again in some seconds, while the query runs",
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
        "Spark could not write or read the state: the disk of the checkpoint or of Spark's temporary files "
        "(SPARK_LOCAL_DIRS, or /tmp) may be full",
        "free some space and start again: nothing is lost",
    ),
]


class StartAgainError(HwheelError, RuntimeError):
    """The query must start again with another plan. The user need not act."""


@dataclass(frozen=True)
class Failure:
    """The reason why a query ended.

    Args:
        what: The fault, on one line.
        advice: The remedy, on one line.
        details: All messages of the exception.
        file: The input file that could not be read, if any.
        is_plan: The query must start again with another plan.
    """

    what: str
    advice: str
    details: str
    file: str | None = None
    is_plan: bool = False

    def __str__(self) -> str:
        return f"{self.what}\n{self.advice}"


def failure_of(error: BaseException | JavaObject) -> Failure:
    """Return the failure that an exception of Python or Java describes."""
    if isinstance(error, HwheelError):
        what, _, advice = str(error).partition("\n")
        return Failure(what, advice or GO_ON, str(error), is_plan=isinstance(error, StartAgainError))
    java = error if isinstance(error, JavaObject) else java_exception(error)
    chain = causes(java) if java is not None else []
    details = "\n".join([*map(str, chain), "" if isinstance(error, JavaObject) else str(error)]).strip()
    for cause in reversed(chain):
        if (file := unreadable_file(cause)) is not None:
            why = one_line(innermost_message(chain))
            return Failure(
                f"{file} cannot be read: {why}",
                "check that the file is accessible; a damaged file is left out",
                details,
                file,
            )
    said = one_line(innermost_message(chain) if chain else last_of_traceback(str(error)))
    for pattern, what, advice in KNOWN_FAILURES:
        if re.search(pattern, details):
            return Failure(what.format(said=said), advice.format(said=said), details)
    return Failure(said, GO_ON, details)


def java_exception(error: BaseException) -> Any:
    """Return the Java exception behind a Python exception, or None."""
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    # The exception of a query is a Python object whose cause came from Java.
    for raised in (error, getattr(error, "_cause", None)):
        if isinstance(found := getattr(raised, "_origin", None), JavaObject):
            return found
    return None


def causes(error: Any) -> list[Any]:
    """Return a Java exception and its causes, the innermost last."""
    found: list[Any] = []
    while error is not None and len(found) < 50:
        found.append(error)
        error = error.getCause()
    return found


def innermost_message(chain: list[Any]) -> str:
    """Return the message of the innermost exception that has one."""
    for cause in reversed(chain):
        if message := cause.getMessage():
            return last_of_traceback(str(message))
    return str(chain[0].getClass().getName())


def last_of_traceback(text: str) -> str:
    """Return the line with the exception of the last Python traceback in a message, or the message itself."""
    if "Traceback (most recent call last)" not in text:
        return text
    lines = [line for line in text.split("Traceback (most recent call last)")[-1].splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+: |[\w.]+(?:Error|Exception|Interrupt)$", line)]
    return (raised or lines)[-1] if lines else text


def one_line(text: str) -> str:
    """Return the first paragraph on one line, cut to MAX_LINE_LENGTH characters."""
    line = " ".join(re.split(r"\n\n|\n==", text.strip())[0].split())
    line = re.sub(r"\s*SQLSTATE: \w+$", "", line)
    return line if len(line) <= MAX_LINE_LENGTH else line[:MAX_LINE_LENGTH] + "..."


def unreadable_file(cause: Any) -> str | None:
    """Return the file that could not be read according to a Java exception, or None if it names no such file."""
    found = re.search(
        r"\[FAILED_READ_FILE\b.*?Encountered error while reading file (\S+?)\.\s", f"{cause.getMessage()} "
    )
    return found[1] if found else None
