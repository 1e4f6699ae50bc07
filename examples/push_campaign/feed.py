"""The senders of the campaign: write the records of the plan as files of JSON lines, each at its time."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from plan import Int64s, Kind, Plan

EVERY_MS = 500  # the interval between files during the day
ROWS_A_FILE = 100_000  # in the files of the night before
REHEARSED, REHEARSAL = 1000, "rehearsal-"
SAMPLE = 5000


def message(plan: Plan, coupon: int, start_ms: int) -> dict[str, object]:
    """Return a coupon as it is sent and as it must be delivered."""
    return {
        "id": f"coupon-{coupon}",
        "key": f"user-{plan.user[coupon]}",
        "due": start_ms + int(plan.due_ms[coupon]),
        "payload": f"{5 + coupon % 10 * 5} % off, code {coupon * 2654435761 % 2**32:08X}",
    }


def line(plan: Plan, record: int, start_ms: int) -> str:
    """Return a record as a line."""
    kind = plan.kind[record]
    if kind == Kind.MESSAGE:
        return json.dumps(message(plan, int(plan.coupon[record]), start_ms))
    if kind == Kind.CANCEL:
        cancel = message(plan, int(plan.coupon[record]), start_ms)
        del cancel["payload"]
        return json.dumps({**cancel, "cancel": True})
    due = start_ms + int(plan.at_ms[record])
    return {
        Kind.NO_ID: f'{{"key": "user-1", "due": {due}, "payload": "for whom?"}}',
        Kind.NO_DUE: f'{{"id": "malformed-{record}", "key": "user-1", "payload": "when?"}}',
        Kind.ABSURD_DUE: f'{{"id": "malformed-{record}", "key": "user-1", "due": {-due}}}',
        Kind.NO_JSON: f'{{"id": "malformed-{record}", "key": "us',
    }[Kind(kind)]


def seconds_to_write(plan: Plan, records: int) -> float:
    """Estimate the time to create the lines of some records, from a sample."""
    sample = range(0, records, max(1, records // SAMPLE))
    begun = time.perf_counter()
    for record in sample:
        line(plan, record, 0)
    return (time.perf_counter() - begun) * records / max(1, len(sample))


def write_rehearsal(directory: Path, now_ms: int) -> None:
    """Write a file of messages that are not coupons: half are due at once, half in three seconds."""
    with (directory / ".rehearsal.json").open("w") as file:
        for number in range(REHEARSED):
            due = now_ms + number % 2 * 3000
            file.write(json.dumps({"id": f"{REHEARSAL}{number}", "key": f"{number % 10}", "due": due}) + "\n")
    (directory / ".rehearsal.json").rename(directory / "rehearsal.json")


class Feeder(threading.Thread):
    """Writes the files.

    Attributes:
        landed_ms: When the file of each record was in the input directory; 0 before that.
    """

    def __init__(self, plan: Plan, directory: Path, start_ms: int) -> None:
        super().__init__(name="feeder", daemon=True)
        self.plan, self.directory, self.start_ms = plan, directory, start_ms
        self.landed_ms: Int64s = np.zeros(len(plan.kind), np.int64)
        self.done = 0  # records in the input directory

    def run(self) -> None:
        for number, (begin, end, at_ms) in enumerate(self.files()):
            time.sleep(max(0, self.start_ms + at_ms - time.time() * 1000) / 1000)
            hidden = self.directory / f".{number:06d}.json"
            with hidden.open("w") as file:
                file.writelines(line(self.plan, record, self.start_ms) + "\n" for record in range(begin, end))
            hidden.rename(self.directory / hidden.name[1:])
            self.landed_ms[begin:end] = time.time() * 1000
            self.done = end

    def files(self) -> Iterator[tuple[int, int, float]]:
        """Yield the first record of each file, the end of its records, and the time to write it."""
        at_ms = self.plan.at_ms
        begin, first_of_day = 0, int(np.searchsorted(at_ms, 0))
        while begin < first_of_day:
            end = min(begin + ROWS_A_FILE, first_of_day)
            yield begin, end, -np.inf
            begin = end
        while begin < len(at_ms):
            slot_ms = (at_ms[begin] // EVERY_MS + 1) * EVERY_MS
            end = int(np.searchsorted(at_ms, slot_ms))
            yield begin, end, float(slot_ms)
            begin = end
