"""Kafka's purgatory: operations that are completed by a condition or by their timeout."""

from hwheel.purgatory.future_purgatory import DelayedFuture, DelayedFuturePurgatory
from hwheel.purgatory.operation import DelayedOperation
from hwheel.purgatory.purgatory import DelayedOperationPurgatory
from hwheel.purgatory.stats import PurgatoryStats
from hwheel.purgatory.threshold_purgatory import ThresholdPurgatory

__all__ = [
    "DelayedFuture",
    "DelayedFuturePurgatory",
    "DelayedOperation",
    "DelayedOperationPurgatory",
    "PurgatoryStats",
    "ThresholdPurgatory",
]
