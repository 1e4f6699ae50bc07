"""Input files that cannot be read: truncated, or of other types. They are left out, and the job goes on.

A file is read wholly or not at all, because a batch that is run again must have the same messages. So when one cannot
be read, the batch fails, the file is written down here, in the checkpoint, and the batch is run again without it, now
and after any crash. The dead letters have its name, and why.
"""

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from hwheel.spark.deliver.failures import FROM_JAVA, failure_of
from hwheel.spark.deliver.files import Directory
from hwheel_core import HwheelError

LIST = "unreadable-files.json"
IN_BLOCKS = (".lz4", ".snappy")  # as Hadoop's codecs know them, which take for a length whatever stands there
LENGTH_BYTES = 4
GLOB = re.compile(r"([\\*?\[\]{},])")


class ListDamagedError(HwheelError, ValueError):
    """The list in the checkpoint is not as it was written."""


@dataclass
class UnreadableFiles:
    """Those of a checkpoint, with the reasons, by the names that Spark's errors have for them.

    Raises:
        ListDamagedError: the list in the checkpoint is not as it was written.
    """

    checkpoint: Directory
    reasons: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.checkpoint.exists(LIST):
            self.reasons = reasons_of(self.checkpoint.read(LIST), f"{self.checkpoint.path.rstrip('/')}/{LIST}")

    def add(self, file: str, reason: str) -> None:
        """Writes it down."""
        self.reasons[file] = reason
        self.checkpoint.make()
        self.checkpoint.write(LIST, json.dumps(self.reasons, indent=1))

    def names(self) -> list[str]:
        """As `_metadata.file_path` has them, which has one slash where an error has three."""
        return sorted({name for file in self.reasons for name in (file, re.sub("^file:/+", "file:/", file))})


def reasons_of(text: str, file: str) -> dict[str, str]:
    """What was written down. Raises ListDamagedError: a job without it would take these files for read."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(reason, str) for reason in found.values()):
        raise ListDamagedError(
            f"{file} is damaged: it has the input files that could not be read, and why\n"
            "put it back from a copy; where there is none, move the files that the dead letters name out of the input, "
            "and delete it"
        )
    return found


def opened(spark: SparkSession, file: str) -> tuple[Any, Any]:
    """Hadoop's file system of a URL, and the path in it."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
    return path.getFileSystem(session.sessionState().newHadoopConf()), path


def why_unreadable(spark: SparkSession, file: str, format: str, schema: str) -> str | None:
    """Why no reader will ever read a file, or None if one may: when its bytes cannot be had, it is not the file that is
    broken, but the way to it; and when it can be read now, it was a passing fault.
    """
    jvm: Any = spark._jvm
    files, path = opened(spark, file)
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
        return "there is a colon in its name, which Hadoop's local file system does not take"
    except Py4JJavaError:
        return None
    if format == "text" and is_not_in_blocks(files, path):
        return "it is no file of Hadoop's format of this name, which is another than that of the commands lz4 and snzip"
    reader = spark.read.format(format)
    if format != "text":
        reader = reader.schema(schema)
    try:
        reader.load(GLOB.sub(r"\\\1", path.toString())).write.format("noop").mode("overwrite").save()
    except FROM_JAVA as error:
        failure = failure_of(error)
        return failure.what.removeprefix(f"{failure.file} cannot be read: ") if failure.file else None
    return None


def not_in_blocks(directory: Directory) -> list[str]:
    """The files in a directory, by their URLs, of which a reader would take the first bytes for the length of a block.

    An error of such a file does not name it: Java has no memory for what it asks for.
    """
    names = [name for name in directory.changed_ms() if name.endswith(IN_BLOCKS) and name[0] not in "._"]
    found = [directory.child_url(name) for name in names if ":" not in name]
    return [file for file in found if is_not_in_blocks(*opened(directory.spark, file))]


def is_not_in_blocks(files: Any, path: Any) -> bool:
    """Whether a file is called as those that consist of blocks, and does not begin with one."""
    if not path.getName().endswith(IN_BLOCKS):
        return False
    stream = files.open(path)
    try:
        head = bytes(stream.readNBytes(2 * LENGTH_BYTES))
    finally:
        stream.close()
    # That of the first block, and that of its first part as it is compressed.
    whole, part = (int.from_bytes(head[at : at + LENGTH_BYTES], "big") for at in (0, LENGTH_BYTES))
    return whole > 0 and part > files.getFileStatus(path).getLen()


def letter_name(file: str) -> str:
    """What the dead letter of a file is called, the same each time."""
    return f"file-{hashlib.sha256(file.encode()).hexdigest()[:16]}"
