"""Do to `hwheel deliver` what crashes and operators do, and count its output.

    python tests/spark/chaos.py [--seed N] [--minutes M]

A round has a job with new places and one of the kinds of input. It is killed with -9, stopped, restored from copies,
started with its input under another name, and started with other settings, see operator_actions.py. The status is 1 if
a message was lost, duplicated, early, or out of order, or if a start that must be refused was not. The input has bursts
of thousands of messages with one deadline, and malformed lines and files, each of which must become one dead letter.
"""

import argparse
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

import pyarrow.parquet as pq

sys.path.append(str(Path(__file__).parent))  # python -P leaves it out
from chaos_sender import FILE_REASON, FileSender, ParquetSender

PATIENCE_S = 1800
ROUND_S = 300
CONF = ["spark.driver.memory=1g", "spark.driver.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1"]


class Job:
    """A process of `hwheel deliver`. `places` are its options --from and --to, and `more` overrides OPTIONS."""

    OPTIONS = ["--trigger", "500ms", "--dead-letters-every", "10s", "--partitions", "2", "--dedup", "1 hour"]

    def __init__(self, directory, places=("--from", "in", "--to", "out"), conf=(), by_id=False):
        self.directory, self.places, self.conf, self.by_id = directory, places, [*CONF, *conf], by_id
        self.more = []

    def command(self):
        conf = [word for setting in self.conf for word in ("--conf", setting)]
        places = [*self.places, "--checkpoint", "state", *(["--by-id"] if self.by_id else [])]
        options = ["--master", "local[2]", *conf, *self.OPTIONS, *self.more]
        return [sys.executable, "-P", "-m", "hwheel", "deliver", *places, *options]

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
    for file in sorted(one for one in directory.glob("*.*") if one.name[0] not in "._"):
        written_ms = file.stat().st_mtime_ns // 1_000_000
        is_json = file.suffix == ".json"
        rows = map(json.loads, file.read_text().splitlines()) if is_json else pq.read_table(file).to_pylist()
        for row in rows:
            yield row, written_ms


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


def run_through(job, trouble, chance, every_s=0.25, make_sender=FileSender):
    """Call trouble(job) while messages arrive, then check the output. Return the sender, which the job has too."""
    directory = job.directory
    (directory / "in").mkdir()
    sender = job.sender = make_sender(directory / "in", chance, every_s, job.by_id)
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
        sender.put_nothing()  # a job without input may rest for a minute
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
    """Return the line, the payload of the row, or the file name that a dead letter is about."""
    return letter.get("line") or letter.get("payload") or Path(letter["file"]).name


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
    from operator_actions import Operator

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", default="random", help="a number, or random (default)")
    parser.add_argument("--minutes", type=float, default=15, help="length of all rounds (default: %(default)s)")
    parser.add_argument("--keep", type=Path, help="a new directory for the files of the rounds (default: removed)")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed == "random" else int(options.seed)
    print(f"--seed {seed}", flush=True)
    chance, end = random.Random(seed), time.monotonic() + options.minutes * 60
    number = 0
    while time.monotonic() < end:
        number += 1
        with tempfile.TemporaryDirectory(prefix="hwheel-chaos-") as directory:
            place = Path(directory) if options.keep is None else options.keep / str(number)
            place.mkdir(parents=True, exist_ok=True)
            job = Job(place, by_id=chance.random() < 0.3)
            is_parquet = chance.random() < 0.5
            if is_parquet:
                job.more += ["--format", "parquet"]
            operator = Operator(job, chance, min(end, time.monotonic() + ROUND_S))
            make, every_s = (ParquetSender, 1) if is_parquet else (FileSender, 0.25)
            sender = run_through(job, lambda _, act=operator: act(), chance, every_s, make)
        print(
            f"round {number}, {'Parquet' if is_parquet else 'JSON'}{', by id' * job.by_id}: {operator}; "
            f"{len(sender.expected()):,} messages, {sender.bursts} bursts: 0 lost, 0 duplicated, 0 early, in order per "
            f"key; {sender.bad_lines:,} bad rows and {sender.bad_files} bad files, each in the dead letters once",
            flush=True,
        )


if __name__ == "__main__":
    main()
