"""Input files that cannot be read: truncated ones, and ones of other types. They are left out, and the job continues.

A file is read completely or not at all, because a repeated batch must have the same messages. So if a file cannot be
read, its batch fails, the checkpoint stores the name of the file, and the batch runs again without it, now and after
any crash. The dead letters report the file and the reason. Each such file costs a restart of the query.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.failures import FROM_JAVA, Failure, failure_of
from hwheel.spark.deliver.source import Source
from hwheel_core import HwheelError

LIST = "unreadable-files.json"
GLOB = re.compile(r"([\\*?\[\]{},])")


class ListDamagedError(HwheelError, ValueError):
    """The list of unreadable files in the checkpoint is damaged."""


@dataclass
class UnreadableFiles:
    """The list of unreadable files in a checkpoint, with reasons, by URL in the form of the logs.

    Raises:
        ListDamagedError: The list in the checkpoint is damaged.
    """

    checkpoint: Directory
    reasons: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.checkpoint.exists(LIST):
            found = parsed_reasons(self.checkpoint.read(LIST), f"{self.checkpoint.path.rstrip('/')}/{LIST}")
            self.reasons = {as_in_logs(file): reason for file, reason in found.items()}

    def add(self, file: str, reason: str) -> None:
        """Add a file, and store the list."""
        self.reasons[file] = reason
        self.checkpoint.make()
        self.checkpoint.write(LIST, json.dumps(self.reasons, indent=1))

    def names(self) -> list[str]:
        """Return the files in both forms of their URL: `_metadata.file_path` has file:/a for file:///a."""
        return sorted({name for file in self.reasons for name in (file, re.sub("^file:/+", "file:/", file))})


def parsed_reasons(text: str, file: str) -> dict[str, str]:
    """Parse the list. A job that ignored a damaged list would count its files as read."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(reason, str) for reason in found.values()):
        raise ListDamagedError(
            f"{file} is damaged: it lists the input files that could not be read\n"
            "restore it from a copy; without one, move the files that the dead letters name out of the input, "
            "and delete it"
        )
    return found


def letter_name(file: str) -> str:
    """Return the name of the dead letter of a file, which is the same each time."""
    return f"file-{hashlib.sha256(file.encode()).hexdigest()[:16]}"


# --- after a failure --------------------------------------------------------------------------------------------------


@dataclass
class LeavingOut:
    """Leaves out the files that make a query fail.

    Args:
        send_letter: Writes a dead letter for a file and a reason. After a crash it is called again.
    """

    source: Source
    files: UnreadableFiles
    send_letter: Callable[[str, str], None]
    left_out: set[tuple[str, str]] = field(default_factory=set)  # (query, file): the query runs without the file

    def after(self, query: str, failure: Failure) -> tuple[str, str] | None:
        """Leave out the file that made a query fail. Return it with the reason, or None if no file is at fault."""
        file = as_in_logs(failure.file or "")
        if not file or (query, file) in self.left_out or (reason := self.leave_out(file)) is None:
            return None
        self.left_out.add((query, file))
        return file, reason

    def leave_out(self, file: str) -> str | None:
        """Leave out a file and return the reason, or return None if the file itself is not at fault."""
        if file in self.files.reasons:  # the other query has left it out after this query had started
            return self.files.reasons[file]
        source = self.source
        reason = why_unreadable(source.spark, file, source.settings.file_format, source.schema)
        if reason is not None:
            self.send_letter(file, reason)
            self.files.add(file, reason)
        return reason


# --- one file ---------------------------------------------------------------------------------------------------------


def as_in_logs(file: str) -> str:
    """Return a URL in the form of a query's log, which has file:///a for file:/a."""
    return re.sub("^file:/+", "file:///", file)


def why_unreadable(spark: SparkSession, file: str, format: str, schema: str) -> str | None:
    """Return why a file can never be read, or None if it may be readable later.

    If the bytes of a file are not accessible, the fault may be in the disk or the network. If the file can be read now,
    the fault was temporary.
    """
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
    files = path.getFileSystem(session.sessionState().newHadoopConf())
    try:
        if not files.exists(path):
            return "it was taken away before it was read" if files.exists(path.getParent()) else None
        stream = files.open(path)
        try:
            stream.transferTo(jvm.java.io.OutputStream.nullOutputStream())
        finally:
            stream.close()
    except IllegalArgumentException:
        if ":" not in path.getName():
            raise
        return "its name has a colon, which Hadoop's local file system does not allow"
    except Py4JJavaError:
        return None
    failure = reading_fails(spark, file, format, schema)
    return failure.what.removeprefix(f"{failure.file} cannot be read: ") if failure and failure.file else None


def reading_fails(spark: SparkSession, file: str, format: str, schema: str) -> Failure | None:
    """Read a file to its end; return the failure, or None."""
    reader = spark.read.format(format)
    if format != "text":
        reader = reader.schema(schema)
    try:
        pattern = GLOB.sub(r"\\\1", unquote(file))  # matches only this file
        reader.load(pattern).write.format("noop").mode("overwrite").save()
    except FROM_JAVA as error:
        return failure_of(error)
    return None
