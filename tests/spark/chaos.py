"""`hwheel deliver` is killed with -9 again and again, and started again on its checkpoint; then all is counted.

python tests/spark/chaos.py [KILLS] [--by-id]    20, if nothing is said; status 1 if anything was lost, doubled or early

With --by-id some of the messages are cancelled and put off by id.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

PATIENCE_S = 300
AHEAD_MS = 3000  # at least so long before its due time a record is there: what comes later may meet its batch
CONF = ["spark.driver.memory=1g", "spark.driver.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1"]


class Sender(threading.Thread):
    """Writes a file with new messages, duplicates and cancels, four times a second unless told otherwise.

    `by_id`: whether also with cancels without a due, and with replacements: one for an id at most, because the order of
    two that are in different files of one batch is not the sender's.
    """

    def __init__(self, directory, chance, every_s=0.25, by_id=False):
        super().__init__(name="sender")
        self.directory, self.chance, self.every_s, self.by_id = directory, chance, every_s, by_id
        self.records, self.cancelled, self.replaced = {}, set(), set()
        self.done = threading.Event()

    def run(self):
        number = 0
        while not self.done.wait(self.every_s):
            number += 1
            self.send(number, [*self.some()])

    def send(self, number, records):
        hidden = self.directory / f".{number}"
        hidden.write_text("".join(json.dumps(record) + "\n" for record in records))
        hidden.rename(self.directory / f"{number}.json")

    def some(self):
        now_ms = int(time.time() * 1000)
        for _ in range(50):
            number = len(self.records)
            record = {
                "id": f"m{number}",
                "key": f"k{number % 17}",
                "payload": f"p{number}",
                "due": now_ms + AHEAD_MS + 2000 + self.chance.randrange(8_000),
            }
            self.records[record["id"]] = record
            pick = self.chance.random()
            if pick < 0.05:  # the cancel first
                self.cancelled.add(record["id"])
                yield {**record, "cancel": True}
            yield record
            if 0.05 < pick < 0.1:
                yield record
        yield "no message"
        for id in self.chance.sample([*self.records], min(20, len(self.records))):
            record = self.records[id]
            if self.chance.random() < 0.5:
                yield record  # again, before or after it was delivered
            elif record["due"] > now_ms + AHEAD_MS and id not in self.replaced:
                if not self.by_id or self.chance.random() < 0.3:
                    self.cancelled.add(id)
                    yield {**record, "cancel": True}
                elif self.chance.random() < 0.5:
                    self.cancelled.add(id)
                    yield {"id": id, "key": record["key"], "cancel": True}
                elif id not in self.cancelled:
                    self.replaced.add(id)
                    due_ms = now_ms + AHEAD_MS + 2000 + self.chance.randrange(8_000)
                    self.records[id] = {**record, "due": due_ms, "payload": "another"}
                    yield {**self.records[id], "replace": True}


class Job:
    """The process. `places` are the options that say from where to where."""

    OPTIONS = ["--trigger", "500ms", "--dead-letters-every", "10s", "--partitions", "2", "--dedup", "1 hour"]

    def __init__(self, directory, places=("--from", "in", "--to", "out"), conf=(), by_id=False):
        self.directory, self.places, self.conf, self.by_id = directory, places, [*CONF, *conf], by_id

    def command(self):
        """What is run, but for the options below, which are the same wherever it runs."""
        conf = [word for setting in self.conf for word in ("--conf", setting)]
        places = [*self.places, "--checkpoint", "state", *(["--by-id"] if self.by_id else [])]
        return [sys.executable, "-P", "-m", "hwheel", "deliver", *places, "--master", "local[2]", *conf, *self.OPTIONS]

    def environment(self):
        return None

    def start(self):
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                cwd=self.directory,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self.environment(),
            )

    def batches(self):
        commits = self.directory / "state" / "messages" / "commits"
        return max([int(one.name) for one in commits.glob("[0-9]*")], default=-1) if commits.exists() else -1

    def wait_for_a_batch(self):
        before, give_up = self.batches(), time.monotonic() + PATIENCE_S
        while self.batches() == before:
            assert self.process.poll() is None, (self.directory / "log").read_text()[-4000:]
            assert time.monotonic() < give_up, "no batch"
            time.sleep(0.05)

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)  # its JVM as well
        self.process.wait()

    def stop(self, number):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


def delivered(directory):
    """(record, written at) of all that went out, batch by batch."""
    for file in sorted((directory / "out").glob("*.json")):
        written_ms = file.stat().st_mtime_ns // 1_000_000
        for line in file.read_text().splitlines():
            yield json.loads(line), written_ms


def run(directory, kills, seed=0, by_id=False):
    """Returns how many messages were to go out; AssertionError if not all did, once, in order, not early."""
    chance = random.Random(seed)

    def kill(job):
        for number in range(kills):
            if number % 3 == 2:
                time.sleep(chance.uniform(0, 8))  # somewhere in its start
            else:
                job.wait_for_a_batch()
                time.sleep(chance.uniform(0, 2))
            job.kill()
            job.start()
        job.wait_for_a_batch()
        assert job.stop(signal.SIGTERM) == 0, "a clean stop"
        job.start()

    return run_through(Job(directory, by_id=by_id), kill, chance)


def run_through(job, trouble, chance, every_s=0.25):
    """The same, of a job that gets into trouble while messages come."""
    directory = job.directory
    (directory / "in").mkdir()
    sender = Sender(directory / "in", chance, every_s, job.by_id)
    sender.start()
    try:
        job.start()
        trouble(job)
        job.wait_for_a_batch()
        sender.done.set()
        sender.join()
        expected = {*sender.records} - sender.cancelled
        assert len(sender.replaced) > 5 or not job.by_id
        give_up = time.monotonic() + PATIENCE_S
        while not expected <= {record["id"] for record, _ in delivered(directory)}:
            assert time.monotonic() < give_up, "messages are missing"
            time.sleep(0.5)
        job.wait_for_a_batch()  # for what may come twice
        assert job.stop(signal.SIGINT) == 0, "a clean stop by Ctrl-C"
    finally:
        sender.done.set()
        if job.process.poll() is None:
            job.kill()
    check(directory, sender.records, expected)
    return len(expected)


def check(directory, records, expected):
    rows = list(delivered(directory))
    counts = Counter(row["id"] for row, _ in rows)
    lost, doubled = expected - {*counts}, [id for id, count in counts.items() if count > 1]
    assert not lost and not doubled, f"lost {len(lost)}, doubled {len(doubled)}: {sorted(lost)[:5]} {doubled[:5]}"
    assert {*counts} == expected, f"cancelled and delivered: {sorted({*counts} - expected)[:5]}"
    dues = defaultdict(list)
    for row, written_ms in rows:
        assert row == records[row["id"]]
        assert row["due"] <= written_ms, "never early"
        dues[row["key"]].append(row["due"])
    assert all(of_key == sorted(of_key) for of_key in dues.values()), "in order per key"


def main():
    by_id = "--by-id" in sys.argv
    (kills,) = [int(argument) for argument in sys.argv[1:] if argument.isdecimal()] or [20]
    with tempfile.TemporaryDirectory(prefix="hwheel-chaos-") as directory:
        started = time.monotonic()
        messages = run(Path(directory), kills, by_id=by_id)
    print(
        f"{kills} kills, {messages:,} messages: 0 lost, 0 doubled, 0 early, in order per key; "
        f"{time.monotonic() - started:.0f} s"
    )


if __name__ == "__main__":
    main()
