"""Rows as Arrow bytes, and the compiled core's arrays as Arrow arrays.

What travels between the stages of the query is an IPC stream, which names its columns. What lies in the state is a
record batch alone: the schema is kept once a shard, in its index, not once a chunk. Behind it stands a checksum,
because Arrow takes most bytes for rows, and rows that nobody has sent are worse than a job that stops.
"""

import zlib
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from hwheel_core import group


def to_stream(table: pa.Table) -> bytes:
    """The rows with their schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_stream(blob: bytes | pa.Buffer) -> pa.Table:
    """Rows of `to_stream`, without a copy."""
    return pa.ipc.open_stream(pa.py_buffer(blob)).read_all()


CHECKSUM_BYTES = 4


def checksum(data: bytes | pa.Buffer) -> bytes:
    return zlib.crc32(data).to_bytes(CHECKSUM_BYTES, "little")


def to_chunk(batch: pa.RecordBatch) -> bytes:
    """The rows without their schema, and their checksum."""
    rows = batch.serialize()
    return b"".join((rows, checksum(rows)))


def from_chunk(blob: bytes | pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of `to_chunk`, without a copy. Raises ValueError where they are not what it was given."""
    chunk = pa.py_buffer(blob)
    size = max(chunk.size - CHECKSUM_BYTES, 0)
    rows = chunk.slice(0, size)
    if checksum(rows) != chunk.slice(size).to_pybytes():
        raise ValueError("a chunk of the state is damaged: its checksum is another")
    return pa.ipc.read_record_batch(rows, schema)


def gathered(batches: Iterable[pa.RecordBatch], most_rows: int, most_bytes: int) -> Iterator[pa.Table]:
    """The batches in order, as tables that each take in batches until they have so many rows or bytes."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= most_rows or size >= most_bytes:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(held)


def cut(table: pa.Table, most_rows: int, most_bytes: int) -> Iterator[pa.Table]:
    """The rows in order, in pieces of so many rows at most, and of about so many bytes; one row is never cut."""
    rows = table.num_rows
    step = max(1, -(-rows // max(1, -(-rows // max(1, most_rows)), -(-table.nbytes // most_bytes))))
    for start in range(0, rows, step):
        piece = table.slice(start, step)
        if piece.num_rows > 1 and piece.nbytes > 2 * most_bytes:  # here are the long ones
            yield from cut(piece, most_rows, most_bytes)
        else:
            yield piece


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """The rows of a table in one piece."""
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    return pa.RecordBatch.from_arrays([one_array(column) for column in table.columns], schema=table.schema)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def arrow_array(values: "array[int]") -> pa.Array:
    """An array of the compiled core, without a copy."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def codes(column: pa.Array) -> pa.Array:
    """A number for each value, the same for equal ones; null is a value."""
    return column.dictionary_encode(null_encoding="encode").indices.cast(pa.int64())


def row_numbers(rows: pa.Table) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """A number for each row, the same for rows that are equal in all columns; from 0, without a gap."""
    order, starts = group(*(codes(one_array(column)) for column in rows.columns))
    numbers = np.empty(rows.num_rows, np.int64)
    numbers[np.asarray(order)] = np.repeat(np.arange(len(starts) - 1), np.diff(np.asarray(starts)))
    return numbers


def flags(column: pa.ChunkedArray) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """A column of booleans, none of them null."""
    found: np.ndarray[Any, np.dtype[np.bool_]] = one_array(column).to_numpy(zero_copy_only=False)
    return found


def constant(value: int, count: int) -> pa.Array:
    """The same number, count times."""
    return pa.repeat(pa.scalar(value, pa.int64()), count)
