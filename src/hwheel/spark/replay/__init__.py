"""A log of timers replayed on Spark: what became of each, and what another tick, wheel size or timeout would have
cost."""

from hwheel.logs.columns import LogError
from hwheel.spark.replay.queries import outcomes, replay

__all__ = ["LogError", "outcomes", "replay"]
