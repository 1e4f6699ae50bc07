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
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession

from hwheel.spark.deliver.failures import failure_of
from hwheel.spark.deliver.files import Directory

LIST = "unreadable-files.json"
GLOB = re.compile(r"([\\*?\[\]{},])")


@dataclass
class UnreadableFiles:
    """Those of a checkpoint, with the reasons, by the names that Spark's errors have for them."""

    checkpoint: Directory
    reasons: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.checkpoint.exists(LIST):
            self.reasons = json.loads(self.checkpoint.read(LIST))

    def add(self, file: str, reason: str) -> None:
        """Writes it down."""
        self.reasons[file] = reason
        self.checkpoint.make()
        self.checkpoint.write(LIST, json.dumps(self.reasons, indent=1))

    def names(self) -> list[str]:
        """As `_metadata.file_path` has them, which has one slash where an error has three."""
        return sorted({name for file in self.reasons for name in (file, re.sub("^file:/+", "file:/", file))})


def why_unreadable(spark: SparkSession, file: str, format: str, schema: str) -> str | None:
    """Why no reader will ever read a file, or None if one may: when its bytes cannot be had, it is not the file that is
    broken, but the way to it; and when it can be read now, it was a passing fault.
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
        return "there is a colon in its name, which Hadoop's local file system does not take"
    except Py4JJavaError:
        return None
    reader = spark.read.format(format)
    if format != "text":
        reader = reader.schema(schema)
    try:
        reader.load(GLOB.sub(r"\\\1", path.toString())).write.format("noop").mode("overwrite").save()
    except (Py4JJavaError, PySparkException) as error:
        failure = failure_of(error)
        return failure.what.removeprefix(f"{failure.file} cannot be read: ") if failure.file else None
    return None


def letter_name(file: str) -> str:
    """What the dead letter of a file is called, the same each time."""
    return f"file-{hashlib.sha256(file.encode()).hexdigest()[:16]}"
