"""Replay of an unsorted log by key: rows are packed where they are read, and sorted and replayed in their shard.

A row that passes Spark's shuffle and enters Python alone is expensive. A blob of thousands of rows is cheap.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hwheel.logs.columns import Column, LogColumns, LogError, joined
from hwheel.logs.files import open_file
from hwheel.replay import Log
from hwheel.spark.arrow import from_stream, gather, one_array, to_stream
from hwheel.spark.replay.parts import part_row
from hwheel.tune.study import Grid, Study, study
from hwheel_core import order_by

PACKED = "shard int, blob binary, error string"
PACK_ROWS = 1_048_576
PACK_BYTES = 2**30  # far below the limit of Arrow's 32-bit offsets
NAMES = ["start", "timeout", "end"]


@dataclass(frozen=True)
class Packer:
    """Pack the rows of each shard into blobs. The input is rows with the columns of the log, or numbers of files.

    Args:
        labels: The label of each shard, which Spark distributes evenly.
    """

    key: str
    columns: LogColumns
    labels: list[int]
    files: list[str] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for table, where, first_row in self.tables(batches):
                yield self.packed(table, where, first_row)
        except LogError as error:
            yield packed_rows([0], [None], [str(error)])

    def tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.Table, str, int]]:
        """Yield some rows at a time, with their file and the number of the first row."""
        if self.files is None:
            for table in gather(batches, PACK_ROWS, PACK_BYTES):
                yield table, "the log", 0
            return
        for numbers in batches:
            for number in numbers.column(0).to_pylist():
                path = self.files[number]
                with open_file(path, self.columns) as file:
                    row = 0
                    for part in file.parts([self.key, *self.columns.names]):
                        for begin in range(0, part.num_rows, PACK_ROWS):
                            yield part.slice(begin, PACK_ROWS), path, row + begin
                        row += part.num_rows

    def packed(self, table: pa.Table, where: str, first_row: int) -> pa.RecordBatch:
        arrays = self.columns.arrays(table, where, first_row)
        shards = hashes(one_array(table.column(self.key))) % len(self.labels)
        order = np.frombuffer(order_by(shards), np.int64)
        bounds = np.cumsum(np.bincount(shards, minlength=len(self.labels)))
        arrays = [array[order] for array in arrays]
        rows = pa.Table.from_arrays([pa.array(array) for array in arrays], NAMES)
        found, blobs, begin = [], [], 0
        for label, end in zip(self.labels, bounds.tolist(), strict=True):
            if end > begin:
                found.append(label)
                blobs.append(to_stream(rows.slice(begin, end - begin)))
            begin = end
        return packed_rows(found, blobs, [None] * len(found))


def packed_rows(shards: list[int], blobs: list[Any], errors: list[Any]) -> pa.RecordBatch:
    """Return a batch with the columns of PACKED."""
    return pa.RecordBatch.from_arrays(
        [pa.array(shards, pa.int32()), pa.array(blobs, pa.binary()), pa.array(errors, pa.string())],
        names=["shard", "blob", "error"],
    )


@dataclass(frozen=True)
class ShardParts:
    """Replay the blobs of a shard as one part."""

    grid: Grid
    curves: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield part_row(lambda: self.replayed(batches))

    def replayed(self, batches: Iterable[pa.RecordBatch]) -> Study:
        parts: list[list[Column]] = []
        for batch in batches:
            for blob, error in zip(batch.column("blob"), batch.column("error"), strict=True):
                if error.is_valid:
                    raise LogError(error.as_py())
                table = from_stream(blob.as_buffer())
                parts.append([one_array(table.column(name)).to_numpy() for name in NAMES])
        columns: Any = joined(parts) if parts else ([], [], [])
        del parts
        return study(Log(*columns), self.grid, curves=self.curves)


def hashes(keys: pa.Array) -> npt.NDArray[np.int64]:
    """Return hashes that are not negative, and equal for equal keys in all processes."""
    encoded = keys if isinstance(keys, pa.DictionaryArray) else keys.dictionary_encode()
    # The CRC of the text of each distinct key.
    distinct = [zlib.crc32(str(key).encode()) for key in encoded.dictionary.to_pylist()]
    distinct.append(0)  # null, by the index -1
    found: npt.NDArray[np.int64] = np.array(distinct, np.int64)[encoded.indices.fill_null(-1).to_numpy()]
    return found
