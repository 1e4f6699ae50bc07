"""Arrow tables as bytes, and the arrays of the compiled core as Arrow arrays.

Between the stages of the query, rows travel as IPC streams, which contain their schema. The state stores record batches
without a schema: the index of the shard stores it once. A checksum follows each batch, because Arrow reads most
damaged bytes without an error.
"""

import zlib
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from hwheel_core import group

CHECKSUM_BYTES = 4


# --- bytes ------------------------------------------------------------------------------------------------------------


def to_stream(table: pa.Table) -> bytes:
    """Serialize rows with their schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_stream(blob: bytes | pa.Buffer) -> pa.Table:
    """Read the rows of ``to_stream()`` without copying them."""
    return pa.ipc.open_stream(pa.py_buffer(blob)).read_all()


def checksum(data: bytes | pa.Buffer) -> bytes:
    return zlib.crc32(data).to_bytes(CHECKSUM_BYTES, "little")


def to_chunk(batch: pa.RecordBatch) -> bytes:
    """Serialize rows without their schema, followed by their checksum."""
    rows = batch.serialize()
    return b"".join((rows, checksum(rows)))


def from_chunk(blob: bytes | pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """Read the rows of ``to_chunk()`` without copying them.

    Raises:
        ValueError: The checksum does not match.
    """
    chunk = pa.py_buffer(blob)
    size = max(chunk.size - CHECKSUM_BYTES, 0)
    rows = chunk.slice(0, size)
    if checksum(rows) != chunk.slice(size).to_pybytes():
        raise ValueError("a chunk of the state is damaged: its checksum does not match")
    return pa.ipc.read_record_batch(rows, schema)


# --- tables -----------------------------------------------------------------------------------------------------------


def gather(batches: Iterable[pa.RecordBatch], max_rows: int, max_bytes: int) -> Iterator[pa.Table]:
    """Join consecutive batches into tables. A table is complete when it reaches either limit."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= max_rows or size >= max_bytes:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(held)


def slices(table: pa.Table, max_rows: int, max_bytes: int) -> Iterator[pa.Table]:
    """Slice a table into pieces of at most ``max_rows`` rows and of about ``max_bytes`` bytes."""
    rows = table.num_rows
    step = max(1, -(-rows // max(1, -(-rows // max(1, max_rows)), -(-table.nbytes // max_bytes))))
    for start in range(0, rows, step):
        piece = table.slice(start, step)
        if piece.num_rows > 1 and piece.nbytes > 2 * max_bytes:  # some rows are much longer than the average
            yield from slices(piece, max_rows, max_bytes)
        else:
            yield piece


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return the rows of a table as one record batch."""
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    return pa.RecordBatch.from_arrays([one_array(column) for column in table.columns], schema=table.schema)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


# --- numbers ----------------------------------------------------------------------------------------------------------


def arrow_array(values: "array[int]") -> pa.Array:
    """Return an array of the compiled core as an Arrow array, without copying it."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def codes(column: pa.Array) -> pa.Array:
    """Return a number for each value. Equal values get equal numbers; null is a value."""
    return column.dictionary_encode(null_encoding="encode").indices.cast(pa.int64())


def row_numbers(rows: pa.Table) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return a number from 0 for each row. Equal rows get equal numbers; no number is skipped."""
    order, starts = group(*(codes(one_array(column)) for column in rows.columns))
    numbers = np.empty(rows.num_rows, np.int64)
    numbers[np.asarray(order)] = np.repeat(np.arange(len(starts) - 1), np.diff(np.asarray(starts)))
    return numbers


def flags(column: pa.ChunkedArray) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Return a boolean column without nulls as a NumPy array."""
    found: np.ndarray[Any, np.dtype[np.bool_]] = one_array(column).to_numpy(zero_copy_only=False)
    return found


def constant(value: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int64()), count)
