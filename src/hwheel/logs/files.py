"""Logs in files, Parquet or text, here or wherever pyarrow finds them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hwheel.extras import needed_by

with needed_by("hwheel.logs.files", "tune", without=("rich", "matplotlib")):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import fs

    from hwheel.logs.columns import Column, LogColumns, LogError
    from hwheel.logs.schema import DROPPED
    from hwheel.logs.text import is_text, read_text
    from hwheel.replay import Log


def files_of(paths: Iterable[str | Path]) -> list[str]:
    """The files that these paths name: files, and the Parquet that lies in directories, at any depth.

    Names that begin with a dot or an underscore are left out, as Spark does. Raises LogError.
    """
    files = []
    for path in map(Path, paths):
        if path.is_dir():
            found = [
                str(file)
                for file in sorted(path.rglob("*.parquet"))
                if file.is_file() and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
            ]
            if not found:
                raise LogError(f"{path}: no *.parquet in this directory")
            files += found
        elif path.exists():
            files.append(str(path))
        else:
            raise LogError(f"{path}: no such file or directory")
    return files


class LogFile(AbstractContextManager["LogFile"]):
    """A file of a log that is open. rows: how many it has; dropped: how many are missing, by what its recorder says."""

    schema: pa.Schema
    rows: int
    dropped: int

    def parts(self, names: list[str]) -> Iterator[pa.Table]:
        """These columns, a part of the rows at a time."""
        raise NotImplementedError

    def close(self) -> None:
        """Lets go of it."""

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class ParquetLog(LogFile):
    """A part is a row group."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._file = pq.ParquetFile(source)
        self.schema = self._file.schema_arrow
        self.rows = self._file.metadata.num_rows
        self.dropped = int((self.schema.metadata or {}).get(DROPPED.encode(), 0))

    def parts(self, names: list[str]) -> Iterator[pa.Table]:
        # In one thread: on Spark there is a core for each task.
        for number in range(self._file.num_row_groups):
            yield self._file.read_row_group(number, names, use_threads=False)

    def close(self) -> None:
        self._file.close()


class TextLog(LogFile):
    """A part is all of it."""

    def __init__(self, path: str, source: pa.NativeFile) -> None:
        self._table = read_text(path, source)
        self.schema = self._table.schema
        self.rows = self._table.num_rows
        self.dropped = 0

    def parts(self, names: list[str]) -> Iterator[pa.Table]:
        yield self._table.select(names)


def open_file(path: str, columns: LogColumns) -> LogFile:
    """A file of a log by its path or URL, its columns checked. Raises LogError."""
    try:
        parts = urlsplit(path)
        if len(parts.scheme) > 1 and parts.scheme != "file":
            filesystem, inside = fs.FileSystem.from_uri(path)
        else:
            filesystem, inside = fs.LocalFileSystem(), unquote(parts.path) if parts.scheme == "file" else path
        source = filesystem.open_input_file(inside)
        file = TextLog(inside, source) if is_text(inside) else ParquetLog(source)
    except (OSError, pa.ArrowException) as error:
        raise LogError(f"{path}: {error}") from None
    try:
        columns.check(file.schema, path)
    except LogError:
        file.close()
        raise
    except UnicodeDecodeError:
        file.close()
        raise LogError(f"{path}: the names of its columns are not in UTF-8") from None
    return file


def read_file(path: str, columns: LogColumns) -> tuple[Log, int]:
    """All of a file, in one thread, and how many rows are missing in it by what its recorder says."""
    with open_file(path, columns) as file:
        arrays = room_for(file.rows, columns)
        fill(arrays, file, columns, path)
        return Log(*arrays), file.dropped


def rows_of(paths: list[str], columns: LogColumns) -> int:
    """How many rows there are. All files are looked at, and have the right columns."""
    count = 0
    for path in paths:
        with open_file(path, columns) as file:
            count += file.rows
    return count


def read_files(
    paths: list[str],
    columns: LogColumns,
    on_rows: Callable[[int], object] = lambda rows: None,
    count: int | None = None,
) -> tuple[Log, int]:
    """All of several files as one log, and how many rows are missing in it by what its recorder says.

    count: what rows_of() says of them, if that has been asked. Takes 24 bytes a row, and as much as one row group of a
    file, or one file of text, on top.
    """
    arrays = room_for(rows_of(paths, columns) if count is None else count, columns)
    at = dropped = 0
    for path in paths:
        with open_file(path, columns) as file:
            dropped += file.dropped
            fill([array[at:] for array in arrays], file, columns, path, on_rows)
            at += file.rows
    return Log(*(array[:at] for array in arrays)), dropped


def room_for(rows: int, columns: LogColumns) -> list[Column]:
    """Arrays for so many rows, which are not set yet."""
    return [np.empty(rows, np.int64) for _ in columns.names]


def fill(
    arrays: list[Column],
    file: LogFile,
    columns: LogColumns,
    path: str,
    on_rows: Callable[[int], object] = lambda rows: None,
) -> None:
    """Writes the rows of a file to the beginning of the arrays."""
    row = 0
    for table in file.parts(columns.names):
        for array, column in zip(arrays, columns.arrays(table, path, row), strict=True):
            array[row : row + table.num_rows] = column
        row += table.num_rows
        on_rows(table.num_rows)
