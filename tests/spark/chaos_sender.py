"""Senders of messages for a job that is killed, with a record of the expected output.

A FileSender also sends bursts, malformed and large lines, and unreadable files. A ParquetSender does so in Parquet,
with any type of `due`.
"""

import bz2
import gzip
import json
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq

from hwheel.spark.deliver.json_lines import MAX_SHOWN
from hwheel.spark.deliver.source import TOO_LARGE

AHEAD_MS = 10_000  # a record arrives at least this long before its deadline, or its cancel could come after its batch
BURST_EVERY, BURST = 40, 5_000  # files from one burst to the next; messages of a burst, due in one millisecond
BURST_PAYLOAD = "b" * 250
BAD_FILE_EVERY = 100
FIRST = 10  # number of the file with the first burst, and of the first bad file
FILE_REASON = "the file cannot be read: "
LARGE_EVERY, LARGE = 20, 2_500_000  # bad lines from one large line to the next; its size
BAD_LINES = {  # reasons by line
    "no message {}": "not a JSON object",
    '"no message {}"': "not a JSON object",
    '{{"id": "cut-{}", "due": 17': "not a JSON object",
    '{{"id": "string-{}", "due": 17, "cancel": "true"}}': 'cancel is neither true nor false: "true"',
    '{{"id": "number-{}", "due": 17, "cancel": 1}}': "cancel is neither true nor false: 1",
    '{{"id": "fraction-{}", "due": 17.5}}': "due is no whole number of 64 bits: 17.5",
    '{{"id": "two-{0}", "due": 17}}{{"id": "{0}"}}': 'more behind the message: {{"id": "{0}"}}',
    '{{"id": "four-{0}", "id": "five-{0}", "due": 17}}': "id is there twice",
    '{{"id": "", "payload": {}, "due": 17}}': "id is empty",
    '{{"id": "late-{}", "due": 253402300800000}}': "due is not between 1970 and 9999: 253402300800000 ms",
    '{{"id": "deep-{}", "due": 17, "x": ' + "[" * 600 + "]" * 600 + "}}": "nested too deeply",
    '{{"id": "caf\N{LATIN SMALL LETTER E WITH ACUTE}-{}", "due": 17}}': "not UTF-8: byte 0xe9 at 11",
}


class Sender(threading.Thread):
    """Sends new messages, duplicates and cancels every `every_s` seconds.

    With `by_id`, it also sends cancels without a due, and replacements. Each id is replaced once at most, because a
    batch may read two files in another order than they were sent in.
    """

    def __init__(self, chance, every_s=0.25, by_id=False):
        super().__init__(name="sender")
        self.chance, self.every_s, self.by_id = chance, every_s, by_id
        self.records, self.cancelled, self.replaced = {}, set(), set()
        self.done = threading.Event()

    def run(self):
        number = 0
        while not self.done.wait(self.every_s):
            number += 1
            self.send(number, [*self.some()])

    def expected(self):
        """Return the ids that must be delivered."""
        return {*self.records} - self.cancelled

    def later_ms(self):
        return int(time.time() * 1000) + AHEAD_MS + 2000 + self.chance.randrange(8_000)

    def message(self, due_ms, more=""):
        number = len(self.records)
        record = {"id": f"m{number}", "key": f"k{number % 17}", "payload": f"p{number}{more}", "due": due_ms}
        self.records[record["id"]] = record
        return record

    def some(self):
        now_ms = int(time.time() * 1000)
        for _ in range(50):
            record = self.message(self.later_ms())
            pick = self.chance.random()
            if pick < 0.05:  # the cancel precedes its message
                self.cancelled.add(record["id"])
                yield {**record, "cancel": True}
            yield record
            if 0.05 < pick < 0.1:
                yield record
        for id in self.chance.sample([*self.records], min(20, len(self.records))):
            record = self.records[id]
            if self.chance.random() < 0.5:
                yield record  # a duplicate, before or after delivery
            elif record["due"] > now_ms + AHEAD_MS and id not in self.replaced:
                if not self.by_id or self.chance.random() < 0.3:
                    self.cancelled.add(id)
                    yield {**record, "cancel": True}
                elif self.chance.random() < 0.5:
                    self.cancelled.add(id)
                    yield {"id": id, "key": record["key"], "cancel": True}
                elif id not in self.cancelled:
                    self.replaced.add(id)
                    self.records[id] = {**record, "due": self.later_ms(), "payload": "another"}
                    yield {**self.records[id], "replace": True}


class FileSender(Sender):
    """Sends files to a directory, and counts bursts, bad lines, and bad files.

    `bad`: the reason of each expected dead letter, by the line or the file name. Under `lock`, no file is written.
    """

    def __init__(self, directory, chance, every_s=0.25, by_id=False):
        super().__init__(chance, every_s, by_id)
        self.directory, self.bad = directory, {}
        self.lock = threading.Lock()
        self.bursts = self.bad_lines = self.bad_files = 0

    def send(self, number, records):
        lines = as_lines(records)
        lines.insert(self.chance.randrange(len(lines) + 1), self.bad_line())
        self.put(f"{number}.json", b"".join(lines))
        if number % BURST_EVERY == FIRST:
            self.put(f"{number}-burst.json", b"".join(as_lines(self.burst())))
        if number % BAD_FILE_EVERY == FIRST:
            kind, content = self.bad_file()
            self.bad_files += 1
            self.bad[f"{number}-{kind}"] = FILE_REASON
            self.put(f"{number}-{kind}", content)

    def put(self, name, content):
        with self.lock:
            hidden = self.directory / f".{name}"
            hidden.write_bytes(content)
            hidden.rename(self.directory / name)

    def put_nothing(self):
        self.put("nothing.json", b"\n")

    def burst(self):
        self.bursts += 1
        due_ms = self.later_ms()
        return [self.message(due_ms, BURST_PAYLOAD) for _ in range(BURST)]

    def bad_line(self):
        """Return the next bad line. One is Latin-1, for which the dead letter has U+FFFD."""
        if self.bad_lines % LARGE_EVERY == LARGE_EVERY - 1:
            return self.large_text() + b"\n"
        template, reason = [*BAD_LINES.items()][self.bad_lines % len(BAD_LINES)]
        line = template.format(self.bad_lines).encode("latin-1")
        self.bad[line.decode(errors="replace")] = reason.format(self.bad_lines)
        self.bad_lines += 1
        return line + b"\n"

    def large_text(self, more=0):
        """Return a text that is too large, and expect its dead letter. `more`: the other bytes of its message."""
        line = f'{{"id": "large-{self.bad_lines}", "due": 17, "payload": "{"x" * LARGE}"}}'
        self.bad[line[:MAX_SHOWN] + "..." * (not more)] = TOO_LARGE.format(len(line) + more)
        self.bad_lines += 1
        return line.encode()

    def bad_file(self):
        """Return the name and content of the next bad file: messages, truncated or under the name of another format."""
        due_ms = int(time.time() * 1000) + AHEAD_MS
        records = [{"id": f"never{i}", "due": due_ms, "payload": self.chance.random()} for i in range(500)]
        plain = b"".join(as_lines(records))
        gzipped, bzipped = gzip.compress(plain), bz2.compress(plain)
        kinds = {
            "cut.json.gz": gzipped[: self.chance.randrange(20, len(gzipped) - 8)],
            "plain.json.gz": plain,
            "cut.json.bz2": bzipped[: self.chance.randrange(20, len(bzipped) - 8)],
            "frame.json.lz4": b"\x04\x22\x4d\x18" + gzipped,  # magic numbers of the commands lz4 and snzip
            "frame.json.snappy": b"\xff\x06\x00\x00sNaPpY" + gzipped,
        }
        return [*kinds.items()][self.bad_files % len(kinds)]


def as_lines(records):
    return [json.dumps(record).encode() + b"\n" for record in records]


ACCEPTED = {
    "int64": lambda due: due,
    "uint64": lambda due: due.cast(pa.uint64()),
    "decimal": lambda due: due.cast(pa.decimal128(20, 0)),
    "ms": lambda due: due.cast(pa.timestamp("ms", "UTC")),
    "us": lambda due: due.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "Europe/Berlin")),
    "ns": lambda due: due.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("ns", "UTC")),
}
REFUSED = {
    "date": lambda due: due.cast(pa.timestamp("ms")).cast(pa.date32(), safe=False),
    "time": lambda due: pa.nulls(len(due), pa.time64("us")),
    "naive": lambda due: due.cast(pa.timestamp("ms")),
    "double": lambda due: due.cast(pa.float64()),
    "text": lambda due: due.cast(pa.string()),
}


class ParquetSender(FileSender):
    """Sends files of Parquet, each with another type of `due`."""

    def send(self, number, records):
        records.insert(self.chance.randrange(len(records) + 1), self.bad_row())
        self.put_table(f"{number}.parquet", records, self.chance.choice([*ACCEPTED.values()]))
        if number % BURST_EVERY == FIRST:
            self.put_table(f"{number}-burst.parquet", self.burst(), ACCEPTED["int64"])
        if number % BURST_EVERY == BURST_EVERY // 2:
            kind = [*REFUSED][self.bad_files % len(REFUSED)]
            self.bad_files += 1
            self.bad[f"{number}-{kind}.parquet"] = FILE_REASON
            never = [{"id": f"never{i}", "due": int(time.time() * 1000)} for i in range(500)]
            self.put_table(f"{number}-{kind}.parquet", never, REFUSED[kind])

    def put_nothing(self):
        self.put_table("nothing.parquet", [], ACCEPTED["int64"])

    def put_table(self, name, records, as_type):
        types = {"id": pa.string(), "key": pa.string(), "due": pa.int64(), "cancel": pa.bool_(), "payload": pa.string()}
        if self.by_id:
            types["replace"] = pa.bool_()
        columns = {column: pa.array([one.get(column) for one in records], type) for column, type in types.items()}
        columns["due"] = as_type(columns["due"])
        content = pa.BufferOutputStream()
        pq.write_table(pa.table(columns), content, row_group_size=self.chance.choice([7, 1000]))
        self.put(name, content.getvalue())

    def bad_row(self):
        """Return the next bad row, whose payload is unique."""
        if self.bad_lines % LARGE_EVERY == LARGE_EVERY - 1:
            return {"id": "large", "due": 17, "payload": self.large_text(len("large")).decode()}
        row, reason = [
            ({"id": None, "due": 17}, "id is null"),
            ({"id": "", "due": 17}, "id is empty"),
            ({"id": "x"}, "due is null"),
        ][self.bad_lines % 3]
        row["payload"] = f"bad {self.bad_lines}"
        self.bad[row["payload"]] = reason
        self.bad_lines += 1
        return row
