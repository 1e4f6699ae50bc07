"""Replays of timer logs on Spark: the outcome of each timer, and the cost of other ticks, wheel sizes, and timeouts."""

from hwheel.logs.columns import LogError
from hwheel.spark.replay.queries import outcomes, replay

__all__ = ["LogError", "outcomes", "replay"]
