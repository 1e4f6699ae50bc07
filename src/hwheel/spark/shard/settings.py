"""What must stay as it is while there is state, kept in each shard's index as data and compared with the query's."""

from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

MB = 1024 * 1024


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


class Column(NamedTuple):
    """A column of the messages, by the name that the query has for it, with Spark's name of its type."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


class ColumnNames(NamedTuple):
    """What three columns of a message are called in the state. One column may stand for two of them."""

    id: str
    key: str
    due: str

    @property
    def identity(self) -> list[str]:
        """The columns that tell two messages of one tick apart."""
        return list(dict.fromkeys([self.id, self.key]))


@dataclass(frozen=True)
class Limits:
    """How much a shard has in memory at a time, whatever there is: of each, rows or bytes, whichever come first."""

    step_rows: int = 1_000_000  # of what arrives, and of what is put in order
    step_bytes: int = 64 * MB
    move_rows: int = 65_536  # of a coarse bucket
    move_bytes: int = 16 * MB
    emit_rows: int = 65_536
    emit_bytes: int = 4 * MB
    spill_bytes: int = 32 * MB  # of what waits for its turn; the rest waits on disk


@dataclass(frozen=True)
class WheelSettings:
    """The settings of a query, as a shard's wheel needs them."""

    columns: list[Column]
    names: ColumnNames
    placement: Placement
    dedup_ms: int
    limits: Limits = Limits()
    by_id: bool = False

    def check(self, placement: Placement, columns: list[Column], names: ColumnNames, by_id: bool) -> None:
        """Raises ValueError if the state was written with another placement, with other columns, or without by_id, or
        with it, where this is otherwise."""
        if by_id != self.by_id:
            raise ValueError(
                f"the checkpoint was written with by_id={by_id}, and this query has by_id={self.by_id}: "
                "this stays as it is for the life of a checkpoint"
            )
        if placement != self.placement:
            raise ValueError(
                f"the checkpoint was written with {placement}, and this query has {self.placement}: "
                "these stay as they are for the life of a checkpoint"
            )
        if columns != self.columns:
            raise ValueError(
                "the checkpoint holds messages of other columns than this query's: "
                f"{differences(columns, self.columns)}. "
                "Names, types and order of id, key, due and payload stay as they are for the life of a checkpoint; "
                f"here that is {', '.join(map(str, columns))}"
            )
        if names != self.names:
            raise ValueError(
                "the checkpoint was written by a query in which other columns are id, key and due: "
                "this stays as it is for the life of a checkpoint"
            )


def differences(held: list[Column], given: list[Column]) -> str:
    """Where two lists of columns differ, in words."""
    return ", ".join(
        f"column {number} is {there or 'none'} there and {here or 'none'} here"
        for number, (there, here) in enumerate(zip_longest(held, given), 1)
        if there != here
    )
