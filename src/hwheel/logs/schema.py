"""What the recorder writes into a file of a log, and what a reader may look for in it."""

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("key", pa.string()),
        ("start", pa.int64()),
        ("timeout", pa.int64()),
        ("end", pa.int64()),
    ]
)
DROPPED = "hwheel.dropped"  # in a file's metadata: how many timers are missing, since the file before it
