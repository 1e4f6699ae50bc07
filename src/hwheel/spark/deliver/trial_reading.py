"""Input files read on trial, when a batch has failed: which of them cannot be read, and why."""

import re
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.failures import FROM_JAVA, Failure, failure_of

IN_BLOCKS = (".lz4", ".snappy")  # as Hadoop's codecs know them, which take for a length whatever stands there
LENGTH_BYTES = 4
BZIP2_NAME = ".bz2"
BZIP2_HEAD = 10
BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", re.DOTALL)  # and then a block, or the end of what has none
GLOB = re.compile(r"([\\*?\[\]{},])")


def as_in_logs(file: str) -> str:
    """A URL as it is in the log of a query: `file:/a` is `file:///a` there."""
    return re.sub("^file:/+", "file:///", file)


def opened(spark: SparkSession, file: str) -> tuple[Any, Any]:
    """Hadoop's file system of a URL, and the path in it."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
    return path.getFileSystem(session.sessionState().newHadoopConf()), path


def why_unreadable(
    spark: SparkSession, file: str, format: str, schema: str, failure: Failure | None = None
) -> str | None:
    """Why no reader will ever read a file, or None if one may: when its bytes cannot be had, it is not the file that is
    broken, but the way to it; and when it can be read now, it was a passing fault. `failure`: that of a reading on
    trial, if there was one.
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
    failure = failure or reading_fails(spark, [file], format, schema)
    if failure is not None:
        return failure.what.removeprefix(f"{failure.file} cannot be read: ") if failure.file else None
    if format == "text" and is_not_bzip2(files, path) and spark.read.text(pattern_of(file)).isEmpty():
        return "it is no bzip2 file, as its name says"
    return None


def pattern_of(file: str) -> str:
    """What stands for the file of this URL alone where Spark takes patterns of paths."""
    return GLOB.sub(r"\\\1", unquote(file))


def reading_fails(spark: SparkSession, files: list[str], format: str, schema: str) -> Failure | None:
    """Reads files to their ends; returns why that fails, if it does."""
    reader = spark.read.format(format)
    if format != "text":
        reader = reader.schema(schema)
    try:
        reader.load([pattern_of(file) for file in files]).write.format("noop").mode("overwrite").save()
    except FROM_JAVA as error:
        return failure_of(error)
    return None


def unreadable_among(
    spark: SparkSession, files: Collection[str], format: str, schema: str
) -> Iterator[tuple[str, Failure]]:
    """The files, by their URLs as they are in the log, that reading fails at, and how. Not for what is `not_in_blocks`.

    Spark names one of them at a time. So all are read until it does, and then the halves of those that are left: two
    readings at most for each that is found, and no file in more of them than it takes halvings.
    """
    parts = [[*files]]
    while parts:
        part = parts.pop()
        if not part or (failure := reading_fails(spark, part, format, schema)) is None:
            continue
        found = as_in_logs(failure.file or "") if len(part) > 1 else part[0]
        if found in part:
            yield found, failure
            part.remove(found)
        middle = len(part) // 2
        parts += [part[middle:], part[:middle]]


def not_in_blocks(directory: Directory) -> list[str]:
    """The files in a directory, by their URLs, of which a reader would take the first bytes for the length of a block.

    An error of such a file does not name it: Java has no memory for what it asks for.
    """
    names = [name for name in directory.changed_ms() if name.endswith(IN_BLOCKS) and name[0] not in "._"]
    found = [as_in_logs(directory.child_url(name)) for name in names if ":" not in name]
    return [file for file in found if is_not_in_blocks(*opened(directory.spark, file))]


def reads_as_nothing(spark: SparkSession, file: str) -> bool:
    """Whether a reader, without an error, finds no line in what is there, because it is not what the name says."""
    if not sometimes_reads_as_nothing(file):
        return False
    files, path = opened(spark, file)
    return bool(files.exists(path)) and (is_not_in_blocks(files, path) or is_not_bzip2(files, path))


def sometimes_reads_as_nothing(file: str) -> bool:
    """Whether a file is called as those of which a reader takes no notice if they are something else."""
    return file.endswith((*IN_BLOCKS, BZIP2_NAME))


def changed_ms(spark: SparkSession, file: str) -> int:
    """The time of change of a file that is there."""
    files, path = opened(spark, file)
    return int(files.getFileStatus(path).getModificationTime())


def is_not_in_blocks(files: Any, path: Any) -> bool:
    """Whether a file is called as those that consist of blocks, and does not begin with one."""
    if not path.getName().endswith(IN_BLOCKS):
        return False
    head = head_of(files, path, 2 * LENGTH_BYTES)
    # That of the first block, and that of its first part as it is compressed.
    whole, part = (int.from_bytes(head[at : at + LENGTH_BYTES], "big") for at in (0, LENGTH_BYTES))
    return whole > 0 and part > files.getFileStatus(path).getLen()


def is_not_bzip2(files: Any, path: Any) -> bool:
    """Whether a file is called as those of bzip2, and does not begin as one: Hadoop looks for the next block then."""
    if not path.getName().endswith(BZIP2_NAME):
        return False
    head = head_of(files, path, BZIP2_HEAD)
    return bool(head) and not BZIP2.match(head)


def head_of(files: Any, path: Any, size: int) -> bytes:
    """The first bytes of a file."""
    stream = files.open(path)
    try:
        return bytes(stream.readNBytes(size))
    finally:
        stream.close()
