"""Logs in Parquet files, here or wherever pyarrow finds them."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hwheel.extras import needed_by

with needed_by("hwheel.logs.files", "tune", without=("rich", "matplotlib")):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import fs

    from hwheel.logs.columns import LogColumns, LogError
    from hwheel.logs.schema import DROPPED
    from hwheel.replay import Log


def files_of(paths: Iterable[str | Path]) -> list[str]:
    """The Parquet files that these paths name: files, and what lies in directories, at any depth.

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


def open_file(path: str, columns: LogColumns) -> pq.ParquetFile:
    """A file of a log by its path or URL, its columns checked. Raises LogError."""
    try:
        parts = urlsplit(path)
        if len(parts.scheme) > 1 and parts.scheme != "file":
            filesystem, inside = fs.FileSystem.from_uri(path)
            file = pq.ParquetFile(filesystem.open_input_file(inside))
        else:
            file = pq.ParquetFile(unquote(parts.path) if parts.scheme == "file" else path)
    except (OSError, pa.ArrowException) as error:
        raise LogError(f"{path}: {error}") from None
    try:
        columns.check(file.schema_arrow, path)
    except LogError:
        file.close()
        raise
    return file


def read_file(path: str, columns: LogColumns) -> tuple[Log, int]:
    """All of a file, in one thread, and how many rows are missing in it by what its recorder says."""
    with open_file(path, columns) as file:
        table = file.read(columns.names, use_threads=False)
        log = Log(*columns.arrays(table, path))
        return log, dropped_rows(file)


def dropped_rows(file: pq.ParquetFile) -> int:
    """How many rows the recorder of this file could not write."""
    return int((file.schema_arrow.metadata or {}).get(DROPPED.encode(), 0))


def rows_of(paths: list[str], columns: LogColumns) -> int:
    """How many rows there are. All files are looked at, and have the right columns."""
    count = 0
    for path in paths:
        with open_file(path, columns) as file:
            count += file.metadata.num_rows
    return count


def read_files(
    paths: list[str], columns: LogColumns, on_rows: Callable[[int], object] = lambda rows: None
) -> tuple[Log, int]:
    """All of several files as one log, and how many rows are missing in it by what its recorder says.

    Takes 24 bytes a row, and as much as one row group of a file on top.
    """
    arrays = [np.empty(rows_of(paths, columns), np.int64) for _ in columns.names]
    at = dropped = 0
    for path in paths:
        with open_file(path, columns) as file:
            dropped += dropped_rows(file)
            for part in row_groups(file, columns, path):
                rows = len(part[0])
                for array, column in zip(arrays, part, strict=True):
                    array[at : at + rows] = column
                at += rows
                on_rows(rows)
    return Log(*(array[:at] for array in arrays)), dropped


def row_groups(file: pq.ParquetFile, columns: LogColumns, path: str) -> Iterator[list[np.ndarray]]:
    """The columns, a row group at a time."""
    row = 0
    for number in range(file.num_row_groups):
        table = file.read_row_group(number, columns.names)
        yield columns.arrays(table, path, row)
        row += table.num_rows
