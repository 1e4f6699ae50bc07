"""Files wherever Spark has them: a local directory, HDFS, an object store. Hadoop's file systems, through the JVM."""

import re
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hwheel.spark.deliver.failures import failure_of
from hwheel_core import HwheelError

SLASHES = "/+"  # file:/a and file:///a are the same


class DirectoryError(HwheelError, ValueError):
    """What is given as a directory cannot be one."""


class Directory:
    """A directory by its path or URL."""

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
            said = failure_of(error).what
            raise DirectoryError(
                f"{path!r} cannot be a directory: {said}\n"
                "give a path without a colon, or a URL like hdfs://HOST/PATH of a file system that Spark knows"
            ) from None
        # Small files are without the checksums that Hadoop keeps beside local files, because a user may edit them.
        is_local = self._files.getScheme() == "file" and hasattr(self._files, "getRawFileSystem")
        self._small_files = self._files.getRawFileSystem() if is_local else self._files
        self.local_path = str(self._files.makeQualified(self._path).toUri().getPath()) if is_local else None

    @property
    def url(self) -> str:
        """With its scheme, from the root on, as it is written."""
        return str(self._files.makeQualified(self._path).toString())

    @property
    def encoded_url(self) -> str:
        """The same as URLs are written, with %20 for a space."""
        return str(self._files.makeQualified(self._path).toUri().toString())

    def is_file(self) -> bool:
        """Whether it is a file, and so no directory."""
        return self.exists() and bool(self._files.getFileStatus(self._path).isFile())

    def child(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def child_url(self, name: str) -> str:
        """That of something in it, as Spark writes it."""
        return str(self._files.makeQualified(self.child(name)).toUri().toString())

    def child_directory(self, name: str) -> "Directory":
        """One in it."""
        return Directory(self.spark, f"{self.path}/{name}")

    def exists(self, name: str = "") -> bool:
        """Whether the directory, or something in it, is there."""
        return bool(self._files.exists(self.child(name) if name else self._path))

    def names(self, name: str) -> list[str]:
        """The names of what is in a directory in it."""
        return sorted(status.getPath().getName() for status in self._files.listStatus(self.child(name)))

    def changed_ms(self) -> dict[str, int]:
        """The files in it by name, each with its time of change."""
        return {
            str(status.getPath().getName()): int(status.getModificationTime())
            for status in self._files.listStatus(self._path)
            if status.isFile()
        }

    def move(self, old: str, new: str) -> bool:
        """Renames a file in it, atomically where the file system can; False if `new` is there already."""
        return not self.exists(new) and bool(self._files.rename(self.child(old), self.child(new)))

    def move_to(self, name: str, other: "Directory") -> bool:
        """Renames a file in it into another directory of the same file system; False if `name` is there already."""
        return not other.exists(name) and bool(self._files.rename(self.child(name), other.child(name)))

    def make(self) -> None:
        self._files.mkdirs(self._path)

    def delete(self, name: str) -> None:
        self._files.delete(self.child(name), True)

    def read(self, name: str) -> str:
        """The text of a small file in it."""
        stream = self._small_files.open(self.child(name))
        try:
            return bytes(stream.readAllBytes()).decode(errors="replace")
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Makes a small file in it, at once, or in place of one that is there: at once where the file system can."""
        stream = self._small_files.create(self.child(f".{name}"), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if not self._small_files.rename(self.child(f".{name}"), self.child(name)):
            self.delete(name)  # HDFS for one does not rename a file to a name that is taken
            if not self._small_files.rename(self.child(f".{name}"), self.child(name)):
                raise DirectoryError(f"{self.path}/{name} cannot be written: {self.path}/.{name} keeps its name")


def steps_of(url: str) -> list[str]:
    """The names in a path, and its scheme."""
    return re.sub(SLASHES, "/", url).rstrip("/").split("/")
