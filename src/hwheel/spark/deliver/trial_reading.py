"""Trial reads of input files after a batch has failed: which files cannot be read, and why."""

import re
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.failures import FROM_JAVA, Failure, failure_of
from hwheel.spark.deliver.parquet_due import DueTypeError, due_kind, row_reader, stored_schema

IN_BLOCKS = (".lz4", ".snappy")  # Hadoop's codecs take the first bytes of any such file for the length of a block
LENGTH_BYTES = 4
PIECE_BYTES = 1024 * 1024  # a line that exceeds the memory of Java is longer
BZIP2_NAME = ".bz2"
BZIP2_HEAD = 10
BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", re.DOTALL)  # the head, then a block or the end of an empty file
GLOB = re.compile(r"([\\*?\[\]{},])")


# --- one file ---------------------------------------------------------------------------------------------------------


def as_in_logs(file: str) -> str:
    """Return a URL in the form of a query's log, which has file:///a for file:/a."""
    return re.sub("^file:/+", "file:///", file)


def located(spark: SparkSession, file: str) -> tuple[Any, Any]:
    """Return Hadoop's file system and Hadoop's path of a URL."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
    return path.getFileSystem(session.sessionState().newHadoopConf()), path


def why_unreadable(
    spark: SparkSession, file: str, format: str, schema: str, failure: Failure | None = None
) -> str | None:
    """Return why a file can never be read, or None if it may be readable later.

    If the bytes of a file are not accessible, the fault may be in the disk or the network. If the file can be read now,
    the fault was temporary.

    Args:
        failure: The failure of a trial read, if there was one.
    """
    files, path = located(spark, file)
    try:
        if not files.exists(path):
            return "it was taken away before it was read" if files.exists(path.getParent()) else None
        read_to_end(spark, files, path)
    except IllegalArgumentException:
        if ":" not in path.getName():
            raise
        return "its name has a colon, which Hadoop's local file system does not allow"
    except Py4JJavaError:
        return None
    if format == "text" and is_not_in_blocks(files, path):
        return "it is not in Hadoop's format of this name, which differs from the format of the commands lz4 and snzip"
    if format == "parquet" and (reason := due_fault(files, path)) is not None:
        return reason
    failure = failure or reading_fails(spark, [file], format, schema)
    if failure is not None:
        return failure.what.removeprefix(f"{failure.file} cannot be read: ") if failure.file else None
    if format == "text" and is_not_bzip2(files, path) and spark.read.text(pattern_of(file)).isEmpty():
        return "its name says bzip2, but its content is not"
    return None


def due_fault(files: Any, path: Any) -> str | None:
    """Return why the column `due` of a Parquet file has no meaning, or None."""
    try:
        due_kind(files, path)
    except DueTypeError as error:
        return str(error)
    return None


def read_to_end(spark: SparkSession, files: Any, path: Any) -> None:
    """Read the bytes of a file, and ignore them."""
    jvm: Any = spark._jvm
    stream = files.open(path)
    try:
        stream.transferTo(jvm.java.io.OutputStream.nullOutputStream())
    finally:
        stream.close()


def pattern_of(file: str) -> str:
    """Return the path pattern that matches only the file of this URL."""
    return GLOB.sub(r"\\\1", unquote(file))


def changed_ms(spark: SparkSession, file: str) -> int:
    """Return the modification time of a file."""
    files, path = located(spark, file)
    return int(files.getFileStatus(path).getModificationTime())


def long_line(spark: SparkSession, file: str, limit: int) -> tuple[int, int] | None:
    """Return the position and the size in bytes of the first line above a limit, or None.

    The limit must be at least PIECE_BYTES, because lines inside a piece are not measured.
    """
    files, path = located(spark, file)
    jvm: Any = spark._jvm
    codec = jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(files.getConf()).getCodec(path)
    start = at = 0
    stream = None
    try:
        if codec is None and files.getFileStatus(path).getLen() <= limit:
            return None
        stream = files.open(path)
        if codec is not None:
            stream = codec.createInputStream(stream)  # may read the head of the file
        while chunk := bytes(stream.readNBytes(PIECE_BYTES)):
            first, last = chunk.find(b"\n"), chunk.rfind(b"\n")
            end = at + (first if first >= 0 else len(chunk))
            if first >= 0 and end - start > limit:
                return start, end - start
            start = at + last + 1 if last >= 0 else start
            at += len(chunk)
        return (start, at - start) if at - start > limit else None
    except Py4JJavaError:  # Spark names the file when it reads it
        return None
    finally:
        if stream is not None:
            stream.close()


# --- many files -------------------------------------------------------------------------------------------------------


def reading_fails(spark: SparkSession, files: list[str], format: str, schema: str) -> Failure | None:
    """Read files to their ends; return the failure, or None."""
    reader = spark.read.format(format)
    if format != "text":
        reader = reader.schema(stored_schema(schema))
    try:
        with row_reader(spark):
            reader.load([pattern_of(file) for file in files]).write.format("noop").mode("overwrite").save()
    except FROM_JAVA as error:
        return failure_of(error)
    return None


def unreadable_among(
    spark: SparkSession, files: Collection[str], format: str, schema: str
) -> Iterator[tuple[str, Failure]]:
    """Yield the files, by URL, whose trial read fails, with the failure. Does not find files of ``not_in_blocks()``.

    Spark names one file in a failure. So all files are read until it names one, and then the two halves of the others.
    This takes at most two reads for each file that is found.
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


# --- files whose content does not match their name --------------------------------------------------------------------


def not_in_blocks(directory: Directory) -> list[str]:
    """Return the files, by URL, whose first bytes a reader would take for the length of a block.

    The error does not name the file: Java runs out of memory, because the length is arbitrary.
    """
    names = [name for name in directory.changed_ms() if name.endswith(IN_BLOCKS) and name[0] not in "._"]
    found = [as_in_logs(directory.child_url(name)) for name in names if ":" not in name]
    return [file for file in found if is_not_in_blocks(*located(directory.spark, file))]


def reads_as_nothing(spark: SparkSession, file: str) -> bool:
    """Return True if Spark finds no line in an existing file, without an error, because its name is wrong."""
    if not may_read_as_nothing(file):
        return False
    files, path = located(spark, file)
    return bool(files.exists(path)) and (is_not_in_blocks(files, path) or is_not_bzip2(files, path))


def may_read_as_nothing(file: str) -> bool:
    """Return True if Spark may silently ignore a file of this name."""
    return file.endswith((*IN_BLOCKS, BZIP2_NAME))


def is_not_in_blocks(files: Any, path: Any) -> bool:
    """Return True if a file does not start with a block, although its name says so."""
    if not path.getName().endswith(IN_BLOCKS):
        return False
    head = head_of(files, path, 2 * LENGTH_BYTES)
    # The lengths of the first block, and of its first compressed part.
    whole, part = (int.from_bytes(head[at : at + LENGTH_BYTES], "big") for at in (0, LENGTH_BYTES))
    return whole > 0 and part > files.getFileStatus(path).getLen()


def is_not_bzip2(files: Any, path: Any) -> bool:
    """Return True if a file does not start like bzip2, although its name says so. Hadoop then skips all of it."""
    if not path.getName().endswith(BZIP2_NAME):
        return False
    head = head_of(files, path, BZIP2_HEAD)
    return bool(head) and not BZIP2.match(head)


def head_of(files: Any, path: Any, size: int) -> bytes:
    """Return the first bytes of a file."""
    stream = files.open(path)
    try:
        return bytes(stream.readNBytes(size))
    finally:
        stream.close()
