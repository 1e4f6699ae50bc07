"""Kill `hwheel deliver` with -9 again and again, restart it on its checkpoint, and count its output.

    python tests/spark/chaos.py [KILLS] [--by-id]

KILLS is 20 by default. The status is 1 if a message was lost, duplicated, or early. The input has bursts of thousands
of messages with one deadline, and malformed lines and files, each of which must become one dead letter. With --by-id,
some messages are cancelled and rescheduled by id.
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
    """A process of `hwheel deliver`. `places` are its options --from and --to."""

    OPTIONS = ["--trigger", "500ms", "--dead-letters-every", "10s", "--partitions", "2", "--dedup", "1 hour"]

    def __init__(self, directory, places=("--from", "in", "--to", "out"), conf=(), by_id=False):
        self.directory, self.places, self.conf, self.by_id = directory, places, [*CONF, *conf], by_id

    def command(self):
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

    def last_batch(self):
        commits = self.directory / "state" / "messages" / "commits"
        return max([int(one.name) for one in commits.glob("[0-9]*")], default=-1)

    def check_runs(self):
        assert self.process.poll() is None, (self.directory / "log").read_text()[-4000:]

    def wait_for_a_batch(self):
        before, give_up = self.last_batch(), time.monotonic() + PATIENCE_S
        while self.last_batch() == before:
            self.check_runs()
            assert time.monotonic() < give_up, f"no batch in {PATIENCE_S} s"
            time.sleep(0.1)

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)  # its JVM as well
        self.process.wait()

    def stop(self, number):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


def rows_in(directory):
    """Yield (record, time of writing) of an output directory, batch by batch."""
    for file in sorted(directory.glob("*.json")):
        written_ms = file.stat().st_mtime_ns // 1_000_000
        for line in file.read_text().splitlines():
            yield json.loads(line), written_ms


def delivered(directory):
    return rows_in(directory / "out")


def letters(directory):
    return [letter for letter, _ in rows_in(directory / "out-dead-letters")]


def run(directory, kills, seed=0, by_id=False):
    """Kill and restart a job, check its output, and return the sender."""
    chance = random.Random(seed)

    def kill(job):
        for number in range(kills):
            if number % 3 == 1:
                time.sleep(chance.uniform(0, 8))  # during its start
            else:
                job.wait_for_a_batch()
                time.sleep(chance.uniform(0, 2))
            job.kill()
            job.start()
            if number % 3 == 2:
                job.wait_for_a_batch()
                assert job.stop(signal.SIGTERM) == 0, "a clean stop"
                job.start()

    return run_through(Job(directory, by_id=by_id), kill, chance)


def run_through(job, trouble, chance, every_s=0.25):
    """Call trouble(job) while messages arrive, then check the output. Return the sender."""
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
        job.wait_for_a_batch()  # which would write duplicates
        assert job.stop(signal.SIGINT) == 0, "a clean stop by Ctrl-C"
    finally:
        sender.done.set()
        if job.process.poll() is None:
            job.kill()
    check_messages(directory, sender.records, sender.expected())
    check_letters(directory, sender.bad)
    return sender


def wait_until(missing, condition):
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, missing
        time.sleep(0.5)


def check_messages(directory, records, expected):
    """Check that each expected message was written once, unchanged, not early, and in order of its key."""
    rows = list(delivered(directory))
    counts = Counter(row["id"] for row, _ in rows)
    lost, duplicated = expected - {*counts}, [id for id, count in counts.items() if count > 1]
    assert not lost and not duplicated, (
        f"lost {len(lost)}, duplicated {len(duplicated)}: {sorted(lost)[:5]} {duplicated[:5]}"
    )
    assert {*counts} == expected, f"cancelled and delivered: {sorted({*counts} - expected)[:5]}"
    dues = defaultdict(list)
    for row, written_ms in rows:
        assert row == records[row["id"]]
        assert row["due"] <= written_ms, "never early"
        dues[row["key"]].append(row["due"])
    assert all(of_key == sorted(of_key) for of_key in dues.values()), "in order per key"


def subject(letter):
    """Return the line or the file name that a dead letter is about."""
    return letter.get("line") or Path(letter["file"]).name


def check_letters(directory, bad):
    """Check that each bad line and file has one dead letter. `bad`: reasons by subject; of a file, its beginning."""
    found = letters(directory)
    counts = Counter(map(subject, found))
    assert {*counts} == {*bad}, f"{sorted({*counts} ^ {*bad})[:5]}"
    assert counts.total() == len(counts), f"duplicated: {counts.most_common(5)}"
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
        "0 lost, 0 duplicated, 0 early, in order per key; "
        f"{sender.bad_lines:,} bad lines and {sender.bad_files} bad files, each in the dead letters once; "
        f"{time.monotonic() - started:.0f} s"
    )


if __name__ == "__main__":
    main()
