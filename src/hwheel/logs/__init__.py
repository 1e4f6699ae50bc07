"""Logs of timers in Parquet files: what `hwheel.recorder` writes, and `hwheel.tune` and `hwheel.spark.replay` read."""

from hwheel.extras import require

# Who writes a log needs no more; who reads one, NumPy as well.
require("hwheel.logs", "recorder")
