"""Files wherever Spark has them: a local directory, HDFS, an object store. Hadoop's file systems, through the JVM."""

from typing import Any

from pyspark.sql import SparkSession


class Directory:
    """A directory by its path or URL."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self.path = path
        self._path = self._jvm.org.apache.hadoop.fs.Path(path)
        session: Any = spark._jsparkSession
        self._files = self._path.getFileSystem(session.sessionState().newHadoopConf())

    def child(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def exists(self, name: str = "") -> bool:
        """Whether the directory, or something in it, is there."""
        return bool(self._files.exists(self.child(name) if name else self._path))

    def names(self, name: str) -> list[str]:
        """The names of what is in a directory in it."""
        return sorted(status.getPath().getName() for status in self._files.listStatus(self.child(name)))

    def move(self, old: str, new: str) -> bool:
        """Renames a file in it, atomically where the file system can; False if `new` is there already."""
        return not self.exists(new) and bool(self._files.rename(self.child(old), self.child(new)))

    def make(self) -> None:
        self._files.mkdirs(self._path)

    def delete(self, name: str) -> None:
        self._files.delete(self.child(name), True)

    def read(self, name: str) -> str:
        """The text of a small file in it."""
        stream = self._files.open(self.child(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Makes a small file in it, at once."""
        stream = self._files.create(self.child(f".{name}"), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._files.rename(self.child(f".{name}"), self.child(name))
