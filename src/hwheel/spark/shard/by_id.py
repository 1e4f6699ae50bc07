"""Cancels and replacements by id and key: where messages lie is looked up, and they are taken back there.

- The register has of each message a hash of id and key, and its tick. It does not tell who it was: so all that it knows
  of a hash gets a tombstone, with the whole id and key, in its tick; and there, where all rows of the tick meet, the
  tombstone takes back what has this id and key, and nothing else.
- Such a tombstone has the sequence of the row that it stands for. It takes back replacements that came before that row,
  and messages whenever they come, as a cancel with a due does.
- A tombstone in a tick is enough. Which ticks have one is kept by id and key, because a session that is put off every
  ten seconds, for half an hour each time, would otherwise make one for each time before, at each time.
- Whoever was named so is recalled for the horizon: see recalled.py.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hwheel.spark.arrow import flags, one_array, row_numbers
from hwheel.spark.message import BY_ID, SEQUENCE, TOMBSTONE, expirations
from hwheel.spark.shard.delivered import OUT, Delivered
from hwheel.spark.shard.id_index import Hashed, Recalled, hashes_of
from hwheel.spark.shard.settings import WheelSettings
from hwheel.spark.shard.state import ByIdEntries, ChunkMap, Chunks

# Levels of the keys in the state, which all three have in common.
REGISTER, TAKEN_BACK, RECALLED = 0, 1, 2
LATEST = 2**63 - 1

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass
class ById:
    """What a shard knows of ids, for one batch."""

    settings: WheelSettings
    schema: pa.Schema  # of the messages in the state
    entries: ByIdEntries
    chunks: Chunks
    delivered: Delivered
    clock_ms: int  # of the batch before
    register: Hashed = field(init=False)
    taken_back: Hashed = field(init=False)
    recalled: Recalled = field(init=False)

    def __post_init__(self) -> None:
        identity = [pa.field(name, self.schema.field(name).type) for name in self.settings.names.identity]
        place = [("hash", pa.int32()), ("tick", pa.int64())]
        whole = pa.schema([*place, *identity, ("is_back", pa.bool_())])
        entries = self.entries
        self.register = Hashed(ChunkMap(self.chunks, pa.schema(place), entries.register), REGISTER, entries.settled_ms)
        self.taken_back = Hashed(ChunkMap(self.chunks, whole, entries.taken_back), TAKEN_BACK, entries.settled_ms)
        self.recalled = Recalled(
            ChunkMap(self.chunks, pa.schema(identity), entries.recalled),
            entries.recalled_until_ms,
            self.settings.dedup_ms,
            RECALLED,
        )

    def forget(self, now_ms: int, rows_held: int) -> None:
        """At the end of a batch, when all ticks up to now_ms are settled, and there are so many rows in the wheel."""
        self.register.tidy(now_ms, rows_held)
        self.taken_back.tidy(now_ms, rows_held)
        self.recalled.forget(now_ms)
        self.entries.settled_ms = now_ms

    def apply(self, rows: pa.Table, hashes: pa.ChunkedArray, now_ms: int) -> pa.Table:
        """Of rows that arrived, with their sequence, those that are to be placed, and tombstones."""
        rows = rows.append_column("hash", hashes_of(hashes))
        keep = ~self.overtaken(rows)
        if flags(rows.column(BY_ID)).any():
            keep &= ~self.repeated(rows)
        if not keep.all():
            rows = rows.filter(pa.array(keep))
        tombstones = []
        if flags(rows.column(BY_ID)).any():
            rows, last = in_order(rows, self.settings.names.identity)
            tombstones.append(self.take_back(last))
            self.recalled.remember(self.identity(last), now_ms)
        messages = rows.filter(pc.invert(rows.column(TOMBSTONE)))
        self.register.append(pa.table([messages.column("hash"), self.ticks(messages)], names=["hash", "tick"]))
        return pa.concat_tables([rows.drop_columns(["hash"]), *tombstones])

    def identity(self, rows: pa.Table) -> pa.Table:
        return rows.select(self.settings.names.identity)

    def ticks(self, rows: pa.Table) -> pa.Array:
        return expirations(one_array(rows.column(self.settings.names.due)), self.settings.placement.tick_ms)

    def overtaken(self, rows: pa.Table) -> Flags:
        """Which rows are messages whose cancel by id, or replacement, came before them."""
        found = np.zeros(rows.num_rows, np.bool_)
        if self.recalled:
            plain = ~flags(rows.column(BY_ID)) & ~flags(rows.column(TOMBSTONE))
            found[plain] = self.recalled.known(self.identity(rows.filter(pa.array(plain))))
        return found

    def repeated(self, rows: pa.Table) -> Flags:
        """Which rows are replacements that came again when they had gone out: nothing comes of them, because what else
        there is of the id has come later than they did.
        """
        found = np.zeros(rows.num_rows, np.bool_)
        replacing = pc.and_not(rows.column(BY_ID), rows.column(TOMBSTONE))
        may_be = np.flatnonzero(flags(pc.and_(replacing, pc.less_equal(self.ticks_or_later(rows), self.clock_ms))))
        if len(may_be):
            asked = self.identity(rows.take(may_be))
            asked = asked.append_column("tick", self.ticks(rows.take(may_be)))
            known = self.delivered.recall(one_array(asked.column("tick")), one_array(asked.column(0)))
            known = known.filter(known.column(OUT)).select(asked.column_names)
            numbers = row_numbers(pa.concat_tables([asked, known.cast(asked.schema)]))
            found[may_be] = np.isin(numbers[: len(may_be)], numbers[len(may_be) :])
        return found

    def ticks_or_later(self, rows: pa.Table) -> pa.Array:
        """Ticks; without a due the latest that there is."""
        return pc.fill_null(self.ticks(rows), LATEST)

    def take_back(self, last: pa.Table) -> pa.Table:
        """Tombstones for all that was there. `last`: for each id and key the last row that takes it back."""
        hashes = last.column("hash").to_numpy()
        of_these = np.unique(hashes)
        found = self.register.find(of_these)
        asked, places = joined(hashes, found.column("hash").to_numpy())
        ticks = found.column("tick").to_numpy()[places]
        asked, ticks = np.unique(np.stack([asked, ticks]), axis=1)
        candidates = self.of_ticks(last.take(asked), ticks)
        replacing = last.filter(pc.invert(last.column(TOMBSTONE)))
        own = self.of_ticks(replacing, self.ticks(replacing).to_numpy())
        known = self.taken_back.find(of_these)
        names = [*self.settings.names.identity, "tick"]
        numbers = row_numbers(pa.concat_tables([table.select(names) for table in (candidates, own, known)]))
        of_candidates, of_own, of_known = np.split(numbers, np.cumsum([candidates.num_rows, own.num_rows]))
        is_back = np.zeros(len(numbers), np.bool_)
        latest = np.full(len(numbers), -1)
        np.maximum.at(latest, of_known, np.arange(len(of_known)))
        told = latest >= 0
        is_back[told] = flags(known.column("is_back"))[latest[told]]
        new = ~is_back[of_candidates]
        is_back[of_candidates] = True
        here_again = is_back[of_own]
        self.tell(candidates.filter(pa.array(new)), True)
        self.tell(own.filter(pa.array(here_again)), False)
        return self.tombstones(last.take(asked[new]), ticks[new])

    def of_ticks(self, rows: pa.Table, ticks: Numbers) -> pa.Table:
        """Hash, tick, id and key."""
        found = pa.table([rows.column("hash"), pa.array(ticks, pa.int64())], names=["hash", "tick"])
        for name in self.settings.names.identity:
            found = found.append_column(self.schema.field(name).with_nullable(True), rows.column(name))
        return found

    def tell(self, places: pa.Table, is_back: bool) -> None:
        """Notes of ids and keys whether what came of them so far into a tick has been taken back."""
        self.taken_back.append(places.append_column("is_back", pa.repeat(pa.scalar(is_back), places.num_rows)))

    def tombstones(self, rows: pa.Table, ticks: Numbers) -> pa.Table:
        """One for each of the rows, in the ticks."""
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


def in_order(rows: pa.Table, identity: list[str]) -> tuple[pa.Table, pa.Table]:
    """Rows that arrived together, of which some take back what is of their id and key: what is left of them, and for
    each id and key the last that does so. What it takes back of them becomes a tombstone; a message behind the first
    that does so was overtaken, and goes; and so does what was only to take back.
    """
    numbers = row_numbers(rows.select(identity))
    sequence = rows.column(SEQUENCE).to_numpy()
    by_id, cancel = flags(rows.column(BY_ID)), flags(rows.column(TOMBSTONE))
    first, last = np.full(len(numbers), LATEST), np.full(len(numbers), -1)
    np.minimum.at(first, numbers[by_id], sequence[by_id])
    np.maximum.at(last, numbers[by_id], sequence[by_id])
    goes = np.where(by_id, cancel, ~cancel & (sequence > first[numbers]))
    back = ~cancel & ~goes & (sequence < last[numbers])
    is_last = by_id & (sequence == last[numbers])
    left = rows
    for name, values in ((TOMBSTONE, cancel | back), (BY_ID, by_id | back)):
        left = left.set_column(left.schema.get_field_index(name), left.schema.field(name), pa.array(values))
    return left.filter(pa.array(~goes)), rows.filter(pa.array(is_last))


def joined(left: Numbers, right: Numbers) -> tuple[Numbers, Numbers]:
    """The pairs of places in which two arrays have the same number."""
    order = np.argsort(left, kind="stable")
    begin, end = (np.searchsorted(left[order], right, side) for side in ("left", "right"))
    counts = end - begin
    places = np.repeat(np.arange(len(right)), counts)
    within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[begin[places] + within], places
