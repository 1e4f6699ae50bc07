"""`hwheel deliver` between topics is killed with -9 and restarted on its checkpoint."""

import json
import random
import signal
import time
from collections import defaultdict

import pytest

import chaos
import chaos_sender
from programs import GuardedJob
from topics import Reader, RetryingProducer, as_json, headers_of

KILLS = 2


class TopicSender(chaos_sender.Sender):
    """Sends to a topic, with duplicates from lost answers and with malformed records."""

    def __init__(self, broker, topic, chance):
        super().__init__(chance)
        self.producer, self.topic, self.proxy = RetryingProducer(broker.lossy_servers), topic, broker.proxy

    def send(self, number, records):
        if number % 8 == 0:
            self.proxy.answers_to_drop += 1
        malformed = ("nobody", b"no message", [("sent", b"by hand")])
        self.producer.send(self.topic, [*as_json(*records), malformed])


class TopicJob(GuardedJob, chaos.Job):
    """A job that ends with the test."""


@pytest.mark.slow
def test_kills_lose_nothing_between_topics(broker, connector, tmp_path):
    chance = random.Random(1)
    source = broker.make_topic("kills-in", 3)
    to = broker.make_topic("kills-out", 3, **{"message.timestamp.type": "LogAppendTime"})
    broker.make_topic("kills-out-dead-letters", 2)
    sender = TopicSender(broker, "kills-in", chance)
    job = TopicJob(tmp_path, ["--from", source, "--to", to], [f"spark.jars={connector}"])
    out, dead = Reader(broker, "kills-out"), Reader(broker, "kills-out-dead-letters")
    sender.start()
    try:
        job.start()
        for _ in range(KILLS):
            job.wait_for_a_batch()
            time.sleep(chance.uniform(0, 2))
            job.kill()
            job.start()
        job.wait_for_a_batch()
        sender.done.set()
        sender.join()
        expected = sender.expected()
        out.until(lambda found: {headers_of(message)["id"] for message in found} >= expected, job.check_runs)
        dead.until(lambda found: len(found) > 0, job.check_runs)
        assert job.stop(signal.SIGINT) == 0, "a clean stop"
        check_messages(out.more(), sender.records, expected)
        log = (tmp_path / "log").read_text()
        # Spark's daemon of Python workers may write more after this line.
        assert "\nhwheel deliver: stopped; nothing is lost, start again to continue\n" in log, log[-4000:]
    finally:
        sender.done.set()
        out.close()
        dead.close()
        if job.process.poll() is None:
            job.kill()
    for message in dead.messages:
        assert (message.key(), message.value()) == (b"nobody", b"no message")
        assert {**headers_of(message), "sent": "by hand", "reason": "not a JSON object"} == headers_of(message)
    assert len(expected) > 300


def check_messages(found, records, expected):
    """Check that each message arrived unchanged at least once, and that first arrivals are in order of the key."""
    assert {headers_of(message)["id"] for message in found} == expected, "all messages, and none that was cancelled"
    seen, dues = set(), defaultdict(list)
    for message in found:
        record = json.loads(message.value())
        assert record == records[record["id"]]
        assert record["due"] <= message.timestamp()[1], "never early by the broker's clock"
        if record["id"] not in seen:
            seen.add(record["id"])
            dues[record["key"]].append(record["due"])
    assert all(of_key == sorted(of_key) for of_key in dues.values()), "in order per key"
    print(f"{len(found)} records of {len(expected)} messages")
