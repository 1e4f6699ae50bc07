"""What hold_until_due is to do, as a few lines of plain Python: no buckets, no levels, no state store.

It knows for ever what was settled, and who was cancelled or replaced by id; the tests stay within the dedup horizon, or
test its end by themselves.
"""

from typing import NamedTuple


class Record(NamedTuple):
    id: str
    key: str
    due: int | None  # None: of a cancel by id
    cancel: bool = False
    payload: str | None = None
    replace: bool = False


class PlainModel:
    def __init__(self, tick_ms):
        self.tick_ms = tick_ms
        self.pending = {}  # (id, key, tick) -> (due, number, record)
        self.settled = set()
        self.out = set()
        self.recalled = set()  # (id, key)
        self.number = 0

    def batch(self, records, now_ms):
        """What goes out in a batch: records in order of due time, then of arrival."""
        for record in records:
            self.number += 1
            self.take_in(record)
        out = sorted((entry, name) for name, entry in self.pending.items() if name[-1] * self.tick_ms <= now_ms)
        for _, name in out:
            del self.pending[name]
            self.settled.add(name)
            self.out.add(name)
        return [record._replace(replace=False) for (_, _, record), _ in out]

    def take_in(self, record):
        if record.cancel and record.due is None:
            self.take_back(record)
            return
        name = self.name_of(record)
        if record.cancel:
            self.settled.add(name)
            self.pending.pop(name, None)
        elif record.replace:
            if name not in self.out:
                self.take_back(record)
                self.pending[name] = record.due, self.number, record
        elif name[:2] not in self.recalled and name not in self.settled:
            entry = record.due, self.number, record
            self.pending[name] = min(self.pending.get(name, entry), entry)

    def take_back(self, record):
        who = record.id, record.key
        self.recalled.add(who)
        for name in [name for name in self.pending if name[:2] == who]:
            del self.pending[name]
            self.settled.add(name)

    def name_of(self, record):
        return record.id, record.key, -(-record.due // self.tick_ms)
