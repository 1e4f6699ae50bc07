"""Logs of timers in Parquet files: what `hwheel.recorder` writes, and `hwheel.tune` and `hwheel.spark.replay` read."""
