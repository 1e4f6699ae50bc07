"""The rows of the state in a form that does not depend on the column names and types of the query."""

import pyarrow as pa

from hwheel.lookup.texts import shown
from hwheel.spark.arrow import one_array
from hwheel.spark.message import BY_ID, SEQUENCE, TOMBSTONE, due_ms, expirations
from hwheel.spark.shard.settings import ColumnNames


def neutral_rows(rows: pa.Table, names: ColumnNames, tick_ms: int, payload: tuple[str, ...]) -> pa.Table:
    """Return id, key, due, tick, cancelled, by_id, and sequence of rows, and payload columns as text: p0, p1, ...

    Ids and keys become bytes. Different ids or keys never have equal bytes. `tick` is the end of the tick in which the
    message is due; like `due`, it is in epoch milliseconds.
    """
    due = one_array(rows.column(names.due))
    columns = {
        "id": as_bytes(rows.column(names.id)),
        "key": as_bytes(rows.column(names.key)),
        "due": due_ms(due),
        "tick": expirations(due, tick_ms),
        "cancelled": rows.column(TOMBSTONE),
        "by_id": rows.column(BY_ID) if BY_ID in rows.column_names else pa.repeat(pa.scalar(False), rows.num_rows),
        "sequence": rows.column(SEQUENCE),
    }
    for number, name in enumerate(payload):
        columns[f"p{number}"] = as_text(rows.column(name))
    return pa.table(columns)


def payload_names(schema: pa.Schema, names: ColumnNames) -> tuple[str, ...]:
    """Return the payload columns of the messages in the state."""
    return tuple(name for name in schema.names if name not in (*names, SEQUENCE, TOMBSTONE, BY_ID))


def as_bytes(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return ids or keys as bytes. Text and numbers become UTF-8."""
    return column if pa.types.is_binary(column.type) else column.cast(pa.string()).cast(pa.binary())


def as_text(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return column if pa.types.is_string(column.type) else pa.array(map(shown, column.to_pylist()), pa.string())
