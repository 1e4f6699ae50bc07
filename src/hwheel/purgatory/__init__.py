"""Kafka's purgatory: operations that complete on a condition or on their timeout."""

from hwheel.purgatory.future_purgatory import DelayedFuture, DelayedFuturePurgatory
from hwheel.purgatory.operation import DelayedOperation
from hwheel.purgatory.purgatory import DelayedOperationPurgatory, PurgatoryStats

__all__ = [
    "DelayedFuture",
    "DelayedFuturePurgatory",
    "DelayedOperation",
    "DelayedOperationPurgatory",
    "PurgatoryStats",
]
