"""What hold_until_due is to do, as a few lines of plain Python: no buckets, no levels, no state store.

It knows for ever what was settled; the tests stay within the dedup horizon, or test its end by themselves.
"""

from typing import NamedTuple


class Record(NamedTuple):
    id: str
    key: str
    due: int
    cancel: bool = False
    payload: str | None = None


class PlainModel:
    def __init__(self, tick_ms):
        self.tick_ms = tick_ms
        self.pending = {}  # (id, key, tick) -> (due, number, record)
        self.settled = set()
        self.number = 0

    def batch(self, records, now_ms):
        """What goes out in a batch: records in order of due time, then of arrival."""
        cancelled = {self.name_of(record) for record in records if record.cancel}
        self.settled |= cancelled
        for name in cancelled & {*self.pending}:
            del self.pending[name]
        for record in records:
            self.number += 1
            name = self.name_of(record)
            if name not in self.settled and name not in self.pending:
                self.pending[name] = record.due, self.number, record
        # In the tick in which a message is due, the first of equal ones in order of due time goes out; here dues of
        # equal messages are equal.
        out = sorted((entry, name) for name, entry in self.pending.items() if name[-1] * self.tick_ms <= now_ms)
        for _, name in out:
            del self.pending[name]
            self.settled.add(name)
        return [record for (_, _, record), _ in out]

    def name_of(self, record):
        return record.id, record.key, -(-record.due // self.tick_ms)
