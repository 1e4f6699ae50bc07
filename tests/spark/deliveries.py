"""Deliveries below one directory, and readers of their output."""

import json
import time
from urllib.parse import unquote

from chaos import PATIENCE_S
from hwheel.spark.deliver.delivery import start_delivery
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
        """Run a delivery until until(delivery) is true, by default after a batch of each query; return the notices."""
        delivery = self.start(**settings)
        checkpoint = self.directory / settings.get("checkpoint", "state")
        self.tend(delivery, lambda: until(delivery) if until else first_batches_done(checkpoint))
        delivery.stop()
        return delivery.notices

    def stop(self):
        for delivery in self.running:
            delivery.stop()


def first_batches_done(checkpoint):
    """Return True once both queries of a delivery have completed a batch."""
    return all((checkpoint / query / "commits" / "0").exists() for query in ("messages", "dead-letters"))


def encoded(line):
    """Return the bytes of a line, which is bytes already or an object to write as JSON."""
    return line if isinstance(line, bytes) else json.dumps(line).encode()


def put_lines(directory, name, *lines):
    """Write a file of lines; make the directory."""
    directory.mkdir(exist_ok=True)
    (directory / name).write_bytes(b"\n".join(map(encoded, lines)))


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
