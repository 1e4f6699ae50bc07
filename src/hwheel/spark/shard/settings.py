"""What must stay as it is while there is state, kept in each shard's index as data and compared with the query's."""

from dataclasses import dataclass
from typing import NamedTuple


class Placement(NamedTuple):
    """All that decides in which shard, level and bucket a message lies."""

    tick_ms: int
    wheel_size: int
    shards: int
    partitions: int

    def __str__(self) -> str:
        return (
            f"tick={self.tick_ms}ms, wheel_size={self.wheel_size}, shards={self.shards}, partitions={self.partitions}"
        )


class ColumnNames(NamedTuple):
    """What three columns of a message are called in the state. One column may stand for two of them."""

    id: str
    key: str
    due: str


@dataclass(frozen=True)
class WheelSettings:
    """The settings of a query, as a shard's wheel needs them."""

    names: ColumnNames
    placement: Placement
    dedup_ms: int

    def check(self, placement: Placement, names: ColumnNames) -> None:
        """Raises ValueError if the state was written with another placement, or with other columns."""
        if placement != self.placement:
            raise ValueError(
                f"the checkpoint was written with {placement}, and this query has {self.placement}: "
                "these stay as they are for the life of a checkpoint"
            )
        if names != self.names:
            raise ValueError(
                "the checkpoint was written by a query in which other columns coincide as id, key and due: "
                "this stays as it is for the life of a checkpoint"
            )
