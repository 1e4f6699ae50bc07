"""The settings of a shard's wheel. A shard's index stores those that must not change while the shard has state."""

from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

MB = 1024 * 1024


class Placement(NamedTuple):
    """The settings that decide the shard, level, and bucket of a message."""

    tick_ms: int
    wheel_size: int
    shards: int
    partitions: int

    def __str__(self) -> str:
        return (
            f"tick={self.tick_ms}ms, wheel_size={self.wheel_size}, shards={self.shards}, partitions={self.partitions}"
        )


class Column(NamedTuple):
    """A column of the messages: its name in the user's query, and Spark's name of its type."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


class ColumnNames(NamedTuple):
    """The names of the id, key, and due columns in the state. One column may have two roles."""

    id: str
    key: str
    due: str

    @property
    def identity(self) -> list[str]:
        """The columns that identify a message within its tick."""
        return list(dict.fromkeys([self.id, self.key]))


@dataclass(frozen=True)
class Limits:
    """Limits on the memory of a shard. Of each pair of rows and bytes, the limit that is reached first applies."""

    step_rows: int = 1_000_000  # rows that are added at once, or settled at once
    step_bytes: int = 64 * MB
    move_rows: int = 65_536  # rows of a coarse bucket that are moved at once
    move_bytes: int = 16 * MB
    emit_rows: int = 65_536  # rows that are emitted at once
    emit_bytes: int = 4 * MB
    spill_bytes: int = 32 * MB  # waiting rows in memory; the others wait in a temporary file


@dataclass(frozen=True)
class WheelSettings:
    """The settings of a query that the wheel of a shard needs.

    Args:
        index_directory: The local directory of the lookup index, or None without one.
    """

    columns: list[Column]
    names: ColumnNames
    placement: Placement
    dedup_ms: int
    limits: Limits = Limits()
    by_id: bool = False
    index_directory: str | None = None

    def check(self, placement: Placement, columns: list[Column], names: ColumnNames, by_id: bool) -> None:
        """Compare the settings that the state was written with.

        Raises:
            ValueError: They differ from the settings of this query.
        """
        if by_id != self.by_id:
            raise ValueError(
                f"the checkpoint was written with by_id={by_id}, and this query has by_id={self.by_id}: "
                "by_id must not change during the life of a checkpoint"
            )
        if placement != self.placement:
            raise ValueError(
                f"the checkpoint was written with {placement}, and this query has {self.placement}: "
                "these must not change during the life of a checkpoint"
            )
        if columns != self.columns:
            raise ValueError(
                "the columns of the checkpoint differ from the columns of this query: "
                f"{differences(columns, self.columns)}. "
                "Names, types, and order of id, key, due, and payload must not change during the life of a checkpoint; "
                f"its columns are {', '.join(map(str, columns))}"
            )
        if names != self.names:
            raise ValueError(
                "the checkpoint was written with other columns as id, key, and due: "
                "these must not change during the life of a checkpoint"
            )


def differences(stored: list[Column], given: list[Column]) -> str:
    """Describe the differences between two lists of columns."""
    return ", ".join(
        f"column {number} is {there or 'none'} in the checkpoint and {here or 'none'} in the query"
        for number, (there, here) in enumerate(zip_longest(stored, given), 1)
        if there != here
    )
