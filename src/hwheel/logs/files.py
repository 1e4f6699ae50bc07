"""Log files: Parquet on any file system of pyarrow, JSON lines, and CSV."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from hwheel.extras import needed_by

with needed_by("hwheel.logs.files", "tune", without=("rich", "matplotlib")):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv, fs, json

    from hwheel.logs import DROPPED
    from hwheel.logs.columns import Column, LogColumns, LogError
    from hwheel.replay import Log

MAX_BLOCK_BYTES = 2**31 - 1


def files_of(paths: Iterable[str | Path]) -> list[str]:
    """Return these files, and all Parquet files in these directories at any depth.

    As in Spark, names that begin with a dot or an underscore are skipped. Raises LogError.
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
                raise LogError(f"{path}: the directory has no *.parquet")
            files += found
        elif path.exists():
            files.append(str(path))
        else:
            raise LogError(f"{path}: no such file or directory")
    return files


# --- formats ----------------------------------------------------------------------------------------------------------


def read_csv(stream: pa.NativeFile, block_bytes: int) -> pa.Table:
    return csv.read_csv(stream, read_options=csv.ReadOptions(block_size=block_bytes))


def read_json(stream: pa.NativeFile, block_bytes: int) -> pa.Table:
    return json.read_json(stream, read_options=json.ReadOptions(block_size=block_bytes))


TEXT_READERS: dict[str, Callable[[pa.NativeFile, int], pa.Table]] = {
    ".jsonl": read_json,
    ".ndjson": read_json,
    ".json": read_json,
    ".csv": read_csv,
}


class LogFile(AbstractContextManager["LogFile"]):
    """An open log file. ``dropped``: the number of timers that its recorder dropped."""

    schema: pa.Schema
    rows: int
    dropped: int = 0

    def parts(self, names: list[str]) -> Iterator[pa.Table]:
        """Yield the named columns, some rows at a time."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the file."""

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class ParquetLog(LogFile):
    """A Parquet file. A part is a row group."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._file = pq.ParquetFile(source)
        self.schema = self._file.schema_arrow
        self.rows = self._file.metadata.num_rows
        self.dropped = int((self.schema.metadata or {}).get(DROPPED.encode(), 0))

    def parts(self, names: list[str]) -> Iterator[pa.Table]:
        # Use one thread, because Spark gives each task one core.
        for number in range(self._file.num_row_groups):
            yield self._file.read_row_group(number, names, use_threads=False)

    def close(self) -> None:
        self._file.close()


class TextLog(LogFile):
    """JSON lines or CSV. The only part is the whole file."""

    def __init__(self, suffix: str, source: pa.NativeFile) -> None:
        # pyarrow takes the types of the columns from the first block, so the file must be one block.
        block_bytes = min(max(source.size() + 1, 1), MAX_BLOCK_BYTES)
        self._table = TEXT_READERS[suffix](source, block_bytes)
        self.schema = self._table.schema
        self.rows = self._table.num_rows

    def parts(self, names: list[str]) -> Iterator[pa.Table]:
        yield self._table.select(names)


def open_file(path: str, columns: LogColumns) -> LogFile:
    """Open a file by its path or URL and check its columns. Raises LogError."""
    try:
        url = urlsplit(path)
        if len(url.scheme) > 1 and url.scheme != "file":
            filesystem, name = fs.FileSystem.from_uri(path)
        else:
            filesystem, name = fs.LocalFileSystem(), unquote(url.path) if url.scheme == "file" else path
        source = filesystem.open_input_file(name)
        suffix = PurePosixPath(name).suffix.lower()
        file = TextLog(suffix, source) if suffix in TEXT_READERS else ParquetLog(source)
    except (OSError, pa.ArrowException) as error:
        raise LogError(f"{path}: {error}") from None
    try:
        columns.check(file.schema, path)
    except LogError:
        file.close()
        raise
    except UnicodeDecodeError:
        file.close()
        raise LogError(f"{path}: the column names are not UTF-8") from None
    return file


# --- reading ----------------------------------------------------------------------------------------------------------


def read_file(path: str, columns: LogColumns) -> tuple[Log, int]:
    """Read a file in one thread. Return the log and the number of timers that its recorder dropped."""
    return read_files([path], columns)


def rows_of(paths: list[str], columns: LogColumns) -> int:
    """Return the number of rows of all files, after checking their columns."""
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
    """Read several files as one log.

    Args:
        paths: The files.
        columns: The names of the columns.
        on_rows: Called after each part is read, with its number of rows.
        count: The result of ``rows_of``, if known.

    Returns:
        The log, and the number of timers that its recorders dropped.

    Needs 24 bytes of memory per row, and the memory for the largest row group or text file.
    """
    rows = rows_of(paths, columns) if count is None else count
    arrays: list[Column] = [np.empty(rows, np.int64) for _ in columns.names]
    end = dropped = 0
    for path in paths:
        with open_file(path, columns) as file:
            dropped += file.dropped
            first = end
            for table in file.parts(columns.names):
                begin, end = end, end + table.num_rows
                for array, column in zip(arrays, columns.arrays(table, path, begin - first), strict=True):
                    array[begin:end] = column
                on_rows(table.num_rows)
    return Log(*(array[:end] for array in arrays)), dropped
