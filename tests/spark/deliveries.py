"""Deliveries below one directory, and readers of their output."""

import json
import time
from urllib.parse import unquote

from chaos import PATIENCE_S
from hwheel.spark.deliver.delivery import start_delivery
from hwheel.spark.deliver.owner import OWNER
from hwheel.spark.deliver.settings import DeliverySettings, Places, WheelOptions

WHEEL = WheelOptions("1 second", 16, 2, 2, "10 minutes")


def wait_until(condition, check=lambda: None, poll_s=0.05):
    """Wait until condition() is true; call check() between polls."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        check()
        assert time.monotonic() < give_up, f"no progress in {PATIENCE_S} s"
        time.sleep(poll_s)


class Deliveries:
    """Starts deliveries from `in` to `out` and `dead`, and tends them."""

    def __init__(self, spark, directory):
        self.spark, self.directory = spark, directory
        self.running = []

    def start(self, checkpoint="state", wheel=WHEEL, trigger="200 milliseconds", archive=None, source="in", **more):
        places = Places(*(str(self.directory / name) for name in (source, "out", "dead", checkpoint)), archive)
        delivery = start_delivery(self.spark, DeliverySettings(places, wheel, trigger=trigger, **more))
        self.running.append(delivery)
        return delivery

    def tend(self, delivery, until):
        """Tend a delivery until until() is true. A failure of the delivery fails the test."""

        def check():
            failure = delivery.tend()
            assert failure is None, failure

        wait_until(until, check)

    def failure_of(self, delivery):
        """Tend a delivery until it fails, and return the failure."""
        found = []
        wait_until(lambda: found, lambda: found.extend(filter(None, [delivery.tend()])))
        delivery.stop()
        return found[0]

    def run(self, until=None, **settings):
        """Run a delivery until until(delivery) is true, by default after a batch of each query; return the notices.

        The last batches with rows are committed, so the next start does not repeat them.
        """
        delivery = self.start(**settings)
        checkpoint = self.directory / settings.get("checkpoint", "state")
        self.tend(delivery, lambda: until(delivery) if until else first_batches_done(checkpoint))
        self.tend(delivery, lambda: self.is_committed(checkpoint))
        delivery.stop()
        return delivery.notices

    def is_committed(self, checkpoint):
        """Return True once Spark has committed the last batches with rows in the outputs."""
        queries = {"out": "messages", "dead": "dead-letters"}
        return all(is_committed(self.directory / place, checkpoint / query) for place, query in queries.items())

    def stop(self):
        for delivery in self.running:
            delivery.stop()


def first_batches_done(checkpoint):
    """Return True once both queries of a delivery have completed a batch."""
    return all((checkpoint / query / "commits" / "0").exists() for query in ("messages", "dead-letters"))


def is_committed(output, query):
    """Return True once Spark has committed the last batch with rows in an output."""
    _, _, number = (output / OWNER).read_text().partition("\n") if (output / OWNER).exists() else ("", "", "")
    return not number or (query / "commits" / number).exists()


def rows_read(delivery):
    """Return the number of rows that completed batches have read."""
    return sum(batch.numInputRows for batch in delivery.messages.recentProgress)


def encoded(line):
    """Return the bytes of a line, which is bytes already or an object to write as JSON."""
    return line if isinstance(line, bytes) else json.dumps(line).encode()


def put_lines(directory, name, *lines):
    """Move a file of lines into a directory, so that a running job reads all of it; make the directory."""
    directory.mkdir(exist_ok=True)
    (directory / ".put").write_bytes(b"\n".join(map(encoded, lines)))
    (directory / ".put").rename(directory / name)


def json_rows(directory):
    return [json.loads(line) for file in directory.glob("*.json") for line in file.read_bytes().splitlines()]


def ids_in(directory):
    return sorted(row["id"] for row in json_rows(directory))


def file_letters(directory):
    """Return the reasons of the dead letters about whole files, by file name. Each file has one letter."""
    rows = json_rows(directory)
    reasons = {unquote(row["file"]).rpartition("/")[2]: row["reason"] for row in rows}
    assert len(reasons) == len(rows)
    return reasons


def write_log(query, batch, offset, files):
    """Write the checkpoint of a query whose last committed batch has this offset.

    Args:
        files: Entries (number, name) of each file of the source log, by the log file's name.
    """
    for name in ("commits", "offsets", "sources/0"):
        (query / name).mkdir(parents=True, exist_ok=True)
    (query / "commits" / str(batch)).write_text("v1\n{}")
    (query / "offsets" / str(batch)).write_text(f'v1\n{{"conf": {{}}}}\n{{"logOffset":{offset}}}')
    for log, entries in files.items():
        lines = [
            json.dumps({"path": f"file://{query.parent}/in/{name}", "timestamp": 100_000 + number, "batchId": number})
            for number, name in entries
        ]
        (query / "sources" / "0" / log).write_text("\n".join(["v1", *lines]))
