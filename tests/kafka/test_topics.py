"""Topics in and out, through a real broker."""

import json
import time
from collections import Counter, defaultdict

import pytest
from topics import Careless, Reader, as_json, headers_of

from hwheel.spark.delivery import WheelOptions, messages_in, start_delivery
from hwheel.spark.topic import KafkaOptions

WHEEL = WheelOptions("100 milliseconds", 16, 2, 2, "10 minutes")
TRIGGER = "300 milliseconds"


@pytest.fixture
def deliver(spark, tmp_path):
    """deliver(source, to, dead, kafka=..., format=...): a running delivery, stopped at the end."""
    running = []

    def start(source, to, dead, kafka=KafkaOptions(), format="json"):
        messages = messages_in(spark, str(source), format, None, kafka)
        delivery = start_delivery(messages, str(to), str(dead), format, str(tmp_path / "state"), WHEEL, TRIGGER, kafka)
        running.append(delivery)
        return delivery

    yield start
    for delivery in running:
        delivery.stop()


@pytest.fixture
def read(broker):
    """read(topic's name): a Reader, closed at the end."""
    readers = []

    def open_one(url):
        readers.append(Reader(broker, url.rpartition("/")[2]))
        return readers[-1]

    yield open_one
    for one in readers:
        one.close()


def alive(delivery):
    def check():
        assert delivery.error() is None, delivery.error()

    return check


def test_order_duplicates_and_cancels_through_partitions(broker, deliver, read):
    source, to = broker.make_topic("a-in", 4), broker.make_topic("a-out", 3)
    dead = broker.make_topic("a-dead")
    start_ms = int(time.time() * 1000) + 4000
    messages = [
        {"id": f"m{i}", "key": f"k{i % 29}", "due": start_ms + 7 * (i * 7919 % 1000), "payload": f"p{i} ä"}
        for i in range(1000)
    ]
    cancels = [{**message, "cancel": True} for message in messages[::10]]
    producer = Careless(broker.lossy_servers)
    broker.proxy.to_lose = 3
    producer.send("a-in", as_json(*messages[:500], *cancels[50:], *messages[500:], *cancels[:50]))
    assert broker.proxy.to_lose == 0, "answers have been lost"
    came = read(source).until(lambda found: len(found) >= 1100)
    assert len(came) > 1100, "and their records were sent again"

    delivery = deliver(source, to, dead)
    expected = {message["id"]: message for i, message in enumerate(messages) if i % 10}
    out = read(to)
    out.until(lambda found: len(found) >= len(expected), alive(delivery))
    again = [message for i, message in enumerate(messages) if i % 3 == 1]
    producer.send("a-in", as_json(*again, {"id": "last", "key": "k0", "due": 1, "payload": ""}))
    found = out.until(lambda found: headers_of(found[-1])["id"] == "last", alive(delivery))
    assert Counter(headers_of(message)["id"] for message in found) == Counter([*expected, "last"])
    dues, partitions = defaultdict(list), defaultdict(set)
    for message in found[:-1]:
        value = json.loads(message.value())
        assert value == expected[value["id"]]
        assert headers_of(message) == {"id": value["id"], "due": str(value["due"])}
        assert message.key().decode() == value["key"]
        assert message.timestamp()[1] >= value["due"], "never early"
        dues[value["key"]].append(value["due"])
        partitions[value["key"]].add(message.partition())
    assert {partition for used in partitions.values() for partition in used} == {0, 1, 2}
    assert all(len(used) == 1 for used in partitions.values())
    assert all(of_key == sorted(of_key) for of_key in dues.values())
    assert delivery.outbox.rows == len(expected) + 1 and delivery.outbox.lag_ms > 0
