"""`hwheel deliver` is killed with -9 again and again, and started again on its checkpoint; then all is counted.

python tests/spark/chaos.py [KILLS] [--by-id]    20, if nothing is said; status 1 if anything was lost, doubled or early

Thousands come due at once now and then, and between messages are lines and files that nobody can read: each has to be
in the dead letters, once. With --by-id some of the messages are cancelled and put off by id.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from chaos_sender import BURST, FILE_REASON, FileSender

PATIENCE_S = 300
CONF = ["spark.driver.memory=1g", "spark.driver.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1"]


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


def rows_in(directory):
    """(record, written at) of all that is in an output directory, batch by batch."""
    for file in sorted(directory.glob("*.json")):
        written_ms = file.stat().st_mtime_ns // 1_000_000
        for line in file.read_text().splitlines():
            yield json.loads(line), written_ms


def delivered(directory):
    return rows_in(directory / "out")


def letters(directory):
    return [letter for letter, _ in rows_in(directory / "out-dead-letters")]


def run(directory, kills, seed=0, by_id=False):
    """Returns the sender; AssertionError if not all that it counts went out, once, in order, not early."""
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
    sender = FileSender(directory / "in", chance, every_s, job.by_id)
    sender.start()
    try:
        job.start()
        trouble(job)
        job.wait_for_a_batch()
        sender.done.set()
        sender.join()
        assert len(sender.replaced) > 5 or not job.by_id
        wait_until("messages are missing", lambda: sender.expected() <= {row["id"] for row, _ in delivered(directory)})
        wait_until("dead letters are missing", lambda: {*sender.bad} <= {*map(subject, letters(directory))})
        job.wait_for_a_batch()  # for what may come twice
        assert job.stop(signal.SIGINT) == 0, "a clean stop by Ctrl-C"
    finally:
        sender.done.set()
        if job.process.poll() is None:
            job.kill()
    check(directory, sender.records, sender.expected())
    check_letters(directory, sender.bad)
    return sender


def wait_until(missing, condition):
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, missing
        time.sleep(0.5)


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


def subject(letter):
    """What a dead letter is about: a line, or where there is none a file."""
    return letter.get("line") or Path(letter["file"]).name


def check_letters(directory, bad):
    """`bad`: the reason of each, by the subject; of a file, how it begins."""
    found = letters(directory)
    counts = Counter(map(subject, found))
    assert {*counts} == {*bad}, f"{sorted({*counts} ^ {*bad})[:5]}"
    assert counts.total() == len(counts), f"doubled: {counts.most_common(5)}"
    for letter in found:
        reason = bad[subject(letter)]
        is_file = reason == FILE_REASON
        assert letter["reason"].startswith(reason) if is_file else letter["reason"] == reason, letter


def main():
    by_id = "--by-id" in sys.argv
    (kills,) = [int(argument) for argument in sys.argv[1:] if argument.isdecimal()] or [20]
    with tempfile.TemporaryDirectory(prefix="hwheel-chaos-") as directory:
        started = time.monotonic()
        sender = run(Path(directory), kills, by_id=by_id)
    print(
        f"{kills} kills, {len(sender.expected()):,} messages, {sender.bursts} bursts of {BURST:,}: "
        "0 lost, 0 doubled, 0 early, in order per key; "
        f"{sender.bad_lines:,} bad lines and {sender.bad_files} bad files, each in the dead letters once; "
        f"{time.monotonic() - started:.0f} s"
    )


if __name__ == "__main__":
    main()
