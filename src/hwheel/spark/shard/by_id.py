"""Cancels and replacements by id and key.

- The register stores the hash of id and key, and the tick, of each pending message. A hash is not unique, so a cancel
  by id puts a tombstone with the whole id and key into each tick that the register returns. The tombstone drops the
  messages of its tick that have its id and key.
- A tombstone has the sequence number of the row that caused it. It drops earlier replacements, and it drops ordinary
  messages whenever they arrive, like a cancel with a due time.
- One tombstone in a tick is enough. The store `taken_back` has the ticks that already have one, by id and key.
  Otherwise a session that is postponed every ten seconds by half an hour would add a tombstone for each earlier
  deadline, each time.
- Ids that were cancelled or replaced are remembered for the dedup horizon: see RecalledIds.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import flags, one_array, row_numbers
from hwheel.spark.message import BY_ID, SEQUENCE, TOMBSTONE, expirations
from hwheel.spark.shard.delivered import OUT, Delivered
from hwheel.spark.shard.id_index import HashedRows, RecalledIds, hashes_of
from hwheel.spark.shard.settings import WheelSettings
from hwheel.spark.shard.state import ByIdEntries, ChunkMap, Chunks

# The levels of the keys of the three stores, which share one map state.
REGISTER, TAKEN_BACK, RECALLED = 0, 1, 2
LATEST = 2**63 - 1

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass
class ById:
    """The index of ids of a shard, for one batch."""

    settings: WheelSettings
    schema: pa.Schema  # of the messages in the state
    entries: ByIdEntries
    chunks: Chunks
    delivered: Delivered
    clock_ms: int  # of the previous batch
    register: HashedRows = field(init=False)
    taken_back: HashedRows = field(init=False)
    recalled: RecalledIds = field(init=False)

    def __post_init__(self) -> None:
        identity = [pa.field(name, self.schema.field(name).type) for name in self.settings.names.identity]
        place = [("hash", pa.int32()), ("tick", pa.int64())]
        whole = pa.schema([*place, *identity, ("is_back", pa.bool_())])
        entries, settled_ms = self.entries, self.entries.settled_ms
        self.register = HashedRows(ChunkMap(self.chunks, pa.schema(place), entries.register), REGISTER, settled_ms)
        self.taken_back = HashedRows(ChunkMap(self.chunks, whole, entries.taken_back), TAKEN_BACK, settled_ms)
        self.recalled = RecalledIds(
            ChunkMap(self.chunks, pa.schema(identity), entries.recalled),
            entries.recalled_until_ms,
            self.settings.dedup_ms,
            RECALLED,
        )

    def forget(self, now_ms: int, rows_held: int) -> None:
        """Remove obsolete rows at the end of a batch, when all ticks up to ``now_ms`` are settled."""
        self.register.tidy(now_ms, rows_held)
        self.taken_back.tidy(now_ms, rows_held)
        self.recalled.forget(now_ms)
        self.entries.settled_ms = now_ms

    def apply(self, rows: pa.Table, hashes: pa.ChunkedArray, now_ms: int) -> pa.Table:
        """Return the arrived rows that must be placed, and the tombstones that they cause."""
        rows = rows.append_column("hash", hashes_of(hashes))
        keep = ~self.recalled_before(rows)
        if flags(rows.column(BY_ID)).any():
            keep &= ~self.already_delivered(rows)
        if not keep.all():
            rows = rows.filter(pa.array(keep))
        tombstones = []
        if flags(rows.column(BY_ID)).any():
            rows, last = applied_in_order(rows, self.settings.names.identity)
            tombstones.append(self.take_back(last))
            self.recalled.remember(self.identity(last), now_ms)
        messages = rows.filter(pc.invert(rows.column(TOMBSTONE)))
        self.register.append(pa.table([messages.column("hash"), self.ticks(messages)], names=["hash", "tick"]))
        return pa.concat_tables([rows.drop_columns(["hash"]), *tombstones])

    def identity(self, rows: pa.Table) -> pa.Table:
        return rows.select(self.settings.names.identity)

    def ticks(self, rows: pa.Table) -> pa.Array:
        return expirations(one_array(rows.column(self.settings.names.due)), self.settings.placement.tick_ms)

    def recalled_before(self, rows: pa.Table) -> Flags:
        """Return a flag for each row: it is an ordinary message whose cancel by id or replacement arrived before it."""
        found = np.zeros(rows.num_rows, np.bool_)
        if self.recalled:
            plain = ~flags(rows.column(BY_ID)) & ~flags(rows.column(TOMBSTONE))
            found[plain] = self.recalled.known(self.identity(rows.filter(pa.array(plain))))
        return found

    def already_delivered(self, rows: pa.Table) -> Flags:
        """Return a flag for each row: it is a duplicate of a delivered replacement.

        Such a row has no effect, because all other rows with its id arrived after the original.
        """
        found = np.zeros(rows.num_rows, np.bool_)
        replacing = pc.and_not(rows.column(BY_ID), rows.column(TOMBSTONE))
        ticks = pc.fill_null(self.ticks(rows), LATEST)
        may_be = np.flatnonzero(flags(pc.and_(replacing, pc.less_equal(ticks, self.clock_ms))))
        if len(may_be):
            asked = self.identity(rows.take(may_be))
            asked = asked.append_column("tick", self.ticks(rows.take(may_be)))
            known = self.delivered.recall(one_array(asked.column("tick")), one_array(asked.column(0)))
            known = known.filter(known.column(OUT)).select(asked.column_names)
            numbers = row_numbers(pa.concat_tables([asked, known.cast(asked.schema)]))
            found[may_be] = np.isin(numbers[: len(may_be)], numbers[len(may_be) :])
        return found

    def take_back(self, last: pa.Table) -> pa.Table:
        """Return tombstones for all earlier messages of some ids and keys, and note their ticks.

        Args:
            last: For each id and key, the last row that cancels or replaces its messages.
        """
        rows, ticks = self.registered(last)
        candidates = self.places(last.take(rows), ticks)
        replacing = last.filter(pc.invert(last.column(TOMBSTONE)))
        own = self.places(replacing, self.ticks(replacing).to_numpy())
        new, reused = self.without_tombstone(candidates, own, np.unique(last.column("hash").to_numpy()))
        self.note(candidates.filter(pa.array(new)), True)
        self.note(own.filter(pa.array(reused)), False)
        return self.tombstones(last.take(rows[new]), ticks[new])

    def registered(self, last: pa.Table) -> tuple[Numbers, Numbers]:
        """Return distinct pairs of a row number in ``last`` and a tick in which the register has its hash."""
        hashes = last.column("hash").to_numpy()
        found = self.register.find(np.unique(hashes))
        rows, places = joined(hashes, found.column("hash").to_numpy())
        rows, ticks = np.unique(np.stack([rows, found.column("tick").to_numpy()[places]]), axis=1)
        return rows, ticks

    def without_tombstone(self, candidates: pa.Table, own: pa.Table, hashes: Any) -> tuple[Flags, Flags]:
        """Return flags of the candidates without a tombstone, and of the replacements whose tick has one afterwards.

        Args:
            candidates: The ``places()`` that need a tombstone.
            own: The ``places()`` of the replacements.
            hashes: All hashes in both.
        """
        known = self.taken_back.find(hashes)
        names = [*self.settings.names.identity, "tick"]
        numbers = row_numbers(pa.concat_tables([table.select(names) for table in (candidates, own, known)]))
        of_candidates, of_own, of_known = np.split(numbers, np.cumsum([candidates.num_rows, own.num_rows]))
        latest = np.full(len(numbers), -1)
        np.maximum.at(latest, of_known, np.arange(len(of_known)))
        has_note = latest >= 0
        has_tombstone = np.zeros(len(numbers), np.bool_)
        has_tombstone[has_note] = flags(known.column("is_back"))[latest[has_note]]
        new = ~has_tombstone[of_candidates]
        has_tombstone[of_candidates] = True
        return new, has_tombstone[of_own]

    def places(self, rows: pa.Table, ticks: Numbers) -> pa.Table:
        """Return the hash, tick, id, and key of rows."""
        found = pa.table([rows.column("hash"), pa.array(ticks, pa.int64())], names=["hash", "tick"])
        for name in self.settings.names.identity:
            found = found.append_column(self.schema.field(name).with_nullable(True), rows.column(name))
        return found

    def note(self, places: pa.Table, is_back: bool) -> None:
        """Record whether a tombstone covers all messages of each id and key in a tick."""
        self.taken_back.append(places.append_column("is_back", pa.repeat(pa.scalar(is_back), places.num_rows)))

    def tombstones(self, rows: pa.Table, ticks: Numbers) -> pa.Table:
        """Return a tombstone in a tick for each of the rows."""
        names = self.settings.names
        columns = []
        for column in self.schema:
            if column.name in (*names.identity, SEQUENCE):
                columns.append(rows.column(column.name))
            elif column.name in (TOMBSTONE, BY_ID):
                columns.append(pa.repeat(pa.scalar(True), rows.num_rows))
            elif column.name == names.due and pa.types.is_timestamp(column.type):
                columns.append(pa.array(ticks * 1000).cast(pa.timestamp("us", column.type.tz)).cast(column.type))
            elif column.name == names.due:
                columns.append(pa.array(ticks, column.type))
            else:
                columns.append(pa.nulls(rows.num_rows, column.type))
        return pa.table(columns, schema=self.schema)


def applied_in_order(rows: pa.Table, identity: list[str]) -> tuple[pa.Table, pa.Table]:
    """Apply the cancels and replacements among rows that arrived together to the other rows, in order of arrival.

    - A cancel by id is removed, because only its tombstones are placed.
    - A message after the first cancel or replacement of its id and key is removed: it counts as delayed in transit.
    - Any other row before the last cancel or replacement becomes a tombstone.

    Returns:
        The remaining rows, and for each id and key the last row that cancels or replaces.
    """
    numbers = row_numbers(rows.select(identity))
    sequence = rows.column(SEQUENCE).to_numpy()
    by_id, cancel = flags(rows.column(BY_ID)), flags(rows.column(TOMBSTONE))
    first, last = np.full(len(numbers), LATEST), np.full(len(numbers), -1)
    np.minimum.at(first, numbers[by_id], sequence[by_id])
    np.maximum.at(last, numbers[by_id], sequence[by_id])
    removed = np.where(by_id, cancel, ~cancel & (sequence > first[numbers]))
    becomes_tombstone = ~cancel & ~removed & (sequence < last[numbers])
    is_last = by_id & (sequence == last[numbers])
    left = rows
    for name, values in ((TOMBSTONE, cancel | becomes_tombstone), (BY_ID, by_id | becomes_tombstone)):
        left = left.set_column(left.schema.get_field_index(name), left.schema.field(name), pa.array(values))
    return left.filter(pa.array(~removed)), rows.filter(pa.array(is_last))


def joined(left: Numbers, right: Numbers) -> tuple[Numbers, Numbers]:
    """Return the pairs of positions at which two arrays have the same number."""
    order = np.argsort(left, kind="stable")
    begin, end = (np.searchsorted(left[order], right, side) for side in ("left", "right"))
    counts = end - begin
    positions = np.repeat(np.arange(len(right)), counts)
    within = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[begin[positions] + within], positions
