"""Logs of timers in files: ``hwheel.recorder`` writes them; ``hwheel.tune`` and ``hwheel.spark.replay`` read them."""

from hwheel.extras import require

# Writing needs only pyarrow; reading also needs NumPy.
require("hwheel.logs", "recorder")

import pyarrow as pa  # noqa: E402

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("key", pa.string()),
        ("start", pa.int64()),
        ("timeout", pa.int64()),
        ("end", pa.int64()),
    ]
)
DROPPED = "hwheel.dropped"  # key in a file's metadata: the timers that were dropped since the previous file
