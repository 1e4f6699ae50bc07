"""Directories on any file system that Spark knows: local, HDFS, or an object store. Uses Hadoop through the JVM."""

import re
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hwheel.spark.deliver.failures import failure_of
from hwheel_core import HwheelError

SLASHES = "/+"  # file:/a and file:///a are equal


class DirectoryError(HwheelError, ValueError):
    """A place is not a directory, or a file in it cannot be written."""


class Directory:
    """A directory with a path or URL. It need not exist."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self.spark = spark
        self.path = path
        session: Any = spark._jsparkSession
        try:
            self._path = self._jvm.org.apache.hadoop.fs.Path(path)
            self._files = self._path.getFileSystem(session.sessionState().newHadoopConf())
        except (Py4JError, PySparkException) as error:
            raise DirectoryError(
                f"{path!r} cannot be a directory: {failure_of(error).what}\n"
                "give a path without a colon, or a URL like hdfs://HOST/PATH of a file system that Spark knows"
            ) from None
        is_local = self._files.getScheme() == "file" and hasattr(self._files, "getRawFileSystem")
        # Hadoop keeps checksums beside local files, which would be wrong after a user edits a small file.
        self._small_files = self._files.getRawFileSystem() if is_local else self._files
        self.local_path = str(self._files.makeQualified(self._path).toUri().getPath()) if is_local else None

    @property
    def url(self) -> str:
        """The absolute URL, without encoding."""
        return str(self._files.makeQualified(self._path).toString())

    @property
    def encoded_url(self) -> str:
        """The absolute URL, with %20 for a space."""
        return str(self._files.makeQualified(self._path).toUri().toString())

    def is_file(self) -> bool:
        """Return True if the path is a file."""
        return self.exists() and bool(self._files.getFileStatus(self._path).isFile())

    def child(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def child_url(self, name: str) -> str:
        """Return the encoded URL of a file in the directory, as Spark writes it."""
        return str(self._files.makeQualified(self.child(name)).toUri().toString())

    def child_directory(self, name: str) -> "Directory":
        return Directory(self.spark, f"{self.path}/{name}")

    def exists(self, name: str = "") -> bool:
        """Return True if the directory, or the file of this name in it, exists."""
        return bool(self._files.exists(self.child(name) if name else self._path))

    def names(self, name: str) -> list[str]:
        """Return the names of the files in a subdirectory."""
        return sorted(status.getPath().getName() for status in self._files.listStatus(self.child(name)))

    def changed_ms(self) -> dict[str, int]:
        """Return the modification times of the files in the directory, by name."""
        return {
            str(status.getPath().getName()): int(status.getModificationTime())
            for status in self._files.listStatus(self._path)
            if status.isFile()
        }

    def move(self, old: str, new: str) -> bool:
        """Rename a file, atomically where the file system can. Return False if ``new`` exists."""
        return not self.exists(new) and bool(self._files.rename(self.child(old), self.child(new)))

    def move_to(self, name: str, other: "Directory") -> bool:
        """Move a file to another directory of the same file system. Return False if ``name`` exists there."""
        return not other.exists(name) and bool(self._files.rename(self.child(name), other.child(name)))

    def make(self) -> None:
        self._files.mkdirs(self._path)

    def delete(self, name: str) -> None:
        self._files.delete(self.child(name), True)

    def read(self, name: str) -> str:
        """Return the text of a small file."""
        stream = self._small_files.open(self.child(name))
        try:
            return bytes(stream.readAllBytes()).decode(errors="replace")
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write or replace a small file, atomically where the file system can.

        Raises:
            DirectoryError: The file could not be renamed to its name.
        """
        stream = self._small_files.create(self.child(f".{name}"), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if not self._small_files.rename(self.child(f".{name}"), self.child(name)):
            self.delete(name)  # a rename on HDFS, for example, does not replace a file
            if not self._small_files.rename(self.child(f".{name}"), self.child(name)):
                raise DirectoryError(f"{self.path}/{name} cannot be written: its content stays in {self.path}/.{name}")


def steps_of(url: str) -> list[str]:
    """Return the scheme of a URL and the names in its path."""
    return re.sub(SLASHES, "/", url).rstrip("/").split("/")
