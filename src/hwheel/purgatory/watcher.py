"""Watcher: an operation's entry in the watch lists."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hwheel.purgatory.operation import DelayedOperation
    from hwheel.purgatory.purgatory import DelayedOperationPurgatory


class Watcher:
    """What the watch lists hold in an operation's place, in all of its keys' lists the same one.

    A completed operation is taken out of it at once. So the lists keep no completed operation alive, however long its
    entry has to wait there for the next check or purge.
    """

    __slots__ = ("delayed", "keys", "operation", "purgatory")

    def __init__(
        self,
        operation: "DelayedOperation",
        keys: tuple[Hashable, ...],
        purgatory: "DelayedOperationPurgatory[Any]",
    ) -> None:
        self.operation: DelayedOperation | None = operation
        self.keys = keys
        self.purgatory = purgatory
        self.delayed = False        # counted as one whose timeout is to come

    def enter(self) -> None:
        """Begins to watch. Called under the operation's lock."""
        operation = self.operation
        if operation is None or operation._watcher is not None:
            raise ValueError("this operation is in a purgatory already")
        if not operation._completed:        # by a first look that did not say so
            operation._watcher = self
            self.purgatory._lists.add(self)
