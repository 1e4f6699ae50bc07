"""Deliveries from and to topics of a real broker."""

import json
import re
import sqlite3
import time
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hwheel.spark.deliver import rest
from hwheel.spark.deliver.checkpoint import MESSAGES, last_batch
from hwheel.spark.deliver.delivery import start_delivery
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.pending import matching_rows
from hwheel.spark.deliver.settings import DeliverySettings, Places, WheelOptions
from hwheel.spark.deliver.sink import TopicSink
from hwheel.spark.deliver.topic import KafkaOptions, Topic, TopicClient, check_topic
from hwheel.spark.session.connector import KafkaError
from topics import PATIENCE_S, Producer, Reader, RetryingProducer, as_json, headers_of

PAGE = Path(__file__).parents[2] / "docs" / "kafka.md"

WHEEL = WheelOptions("100 milliseconds", 16, 2, 2, "10 minutes")
TRIGGER = "300 milliseconds"


@pytest.fixture
def deliver(spark, tmp_path, monkeypatch):
    """deliver(source, to, dead, kafka=..., wheel=...): a running delivery, which is stopped at the end."""
    running = []
    monkeypatch.setattr(rest, "LONGEST_WAIT_S", 0.5)  # tests wait for the commit of a batch

    def start(source, to, dead, kafka=KafkaOptions(), wheel=WHEEL):
        places = Places(str(source), str(to), str(dead), str(tmp_path / "state"))
        delivery = start_delivery(spark, DeliverySettings(places, wheel, kafka, "json", TRIGGER, "10 seconds"))
        running.append(delivery)
        return delivery

    yield start
    for delivery in running:
        delivery.stop()


@pytest.fixture
def read(broker):
    """read(url): a Reader of a topic, which is closed at the end."""
    readers = []

    def open_one(url):
        readers.append(Reader(broker, url.rpartition("/")[2]))
        return readers[-1]

    yield open_one
    for one in readers:
        one.close()


def failing(delivery):
    """Return a check that tends a delivery, and fails if the delivery has failed."""

    def check():
        failure = delivery.tend()
        assert failure is None, failure

    return check


def wait_for(condition, delivery):
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        failing(delivery)()
        assert time.monotonic() < give_up
        time.sleep(0.1)


def test_order_duplicates_and_cancels_across_partitions(broker, deliver, read):
    source, to = broker.make_topic("a-in", 4), broker.make_topic("a-out", 3)
    dead = broker.make_topic("a-dead")
    start_ms = int(time.time() * 1000) + 4000
    messages = [
        {"id": f"m{i}", "key": f"k{i % 29}", "due": start_ms + 7 * (i * 7919 % 1000), "payload": f"p{i} ä"}
        for i in range(1000)
    ]
    cancels = [{**message, "cancel": True} for message in messages[::10]]
    producer = RetryingProducer(broker.lossy_servers)
    broker.proxy.answers_to_drop = 3
    producer.send("a-in", as_json(*messages[:500], *cancels[50:], *messages[500:], *cancels[:50]))
    assert broker.proxy.answers_to_drop == 0
    arrived = read(source).until(lambda found: len(found) >= 1100)
    assert len(arrived) > 1100, "records without an answer were sent again"

    delivery = deliver(source, to, dead)
    expected = {message["id"]: message for i, message in enumerate(messages) if i % 10}
    out = read(to)
    out.until(lambda found: len(found) >= len(expected), failing(delivery))
    again = [message for i, message in enumerate(messages) if i % 3 == 1]
    producer.send("a-in", as_json(*again, {"id": "last", "key": "k0", "due": 1, "payload": ""}))
    found = out.until(lambda found: headers_of(found[-1])["id"] == "last", failing(delivery))
    assert Counter(headers_of(message)["id"] for message in found) == Counter([*expected, "last"])
    dues, partitions = defaultdict(list), defaultdict(set)
    for one in found[:-1]:
        value = json.loads(one.value())
        assert value == expected[value["id"]]
        assert headers_of(one) == {"id": value["id"], "due": str(value["due"])}
        assert one.key().decode() == value["key"]
        assert one.timestamp()[1] >= value["due"], "never early"
        dues[value["key"]].append(value["due"])
        partitions[value["key"]].add(one.partition())
    assert {partition for used in partitions.values() for partition in used} == {0, 1, 2}
    assert all(len(used) == 1 for used in partitions.values())
    assert all(of_key == sorted(of_key) for of_key in dues.values())
    wait_for(lambda: delivery.sink.rows == len(expected) + 1, delivery)  # rows are counted after they are sent
    assert delivery.sink.late_arrivals or delivery.sink.lag_ms > 0


def test_no_batch_runs_while_nothing_is_due_and_no_record_arrives(spark, broker, deliver, read, tmp_path, monkeypatch):
    monkeypatch.setattr(rest, "LONGEST_WAIT_S", 10_000)
    source, to, dead = (broker.make_topic(f"rest-{name}", 2) for name in ("in", "out", "dead"))
    producer = RetryingProducer(broker.servers)
    producer.send("rest-in", as_json({"id": "far", "key": "k", "due": 4 * 10**12}))
    delivery = deliver(source, to, dead)
    wait_for(lambda: delivery.sink.rest.resting, delivery)
    query = Directory(spark, str(tmp_path / "state" / MESSAGES))
    batch, until = last_batch(query, "offsets"), time.monotonic() + 3
    wait_for(lambda: time.monotonic() > until, delivery)
    assert (last_batch(query, "offsets"), last_batch(query, "commits")) == (batch, batch - 1)  # it has begun and rests
    producer.send("rest-in", as_json({"id": "late", "key": "k", "due": 1000}))
    found = read(to).until(lambda found: found, failing(delivery))
    assert [headers_of(one)["id"] for one in found] == ["late"]
    wait_for(lambda: delivery.sink.rest.resting, delivery)  # so that stop() ends a rest


def test_ends_of_a_topic_differ_after_a_record_and_if_it_does_not_exist(spark, broker):
    url = broker.make_topic("ends", 3)
    with closing(TopicClient(spark, Topic.of(url), KafkaOptions())) as client:
        before = client.look()
        assert client.look() == before
        RetryingProducer(broker.servers).send("ends", as_json({"id": "a", "key": "k", "due": 1}))
        assert client.look() != before
    absent = Topic.of(url.replace("/ends", "/absent"))
    with closing(TopicClient(spark, absent, KafkaOptions())) as client:
        assert client.look() != client.look()


def test_records_of_an_aborted_transaction_are_no_messages(broker, deliver, read):
    source, to, dead = (broker.make_topic(f"t-{name}", 1) for name in ("in", "out", "dead"))
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": "sender", "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    for id, end in (("aborted", producer.abort_transaction), ("committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("t-in", json.dumps({"id": id, "due": 1000}))
        producer.flush(PATIENCE_S)
        end(PATIENCE_S)
    delivery = deliver(source, to, dead)
    found = read(to).until(lambda found: any(headers_of(one)["id"] == "committed" for one in found), failing(delivery))
    assert [headers_of(one)["id"] for one in found] == ["committed"]


@pytest.mark.parametrize("format", ["json", "headers"])
def test_large_record_is_a_dead_letter_with_its_offset_and_size(broker, deliver, read, format):
    source = broker.make_topic(f"l-{format}-in", 1, **{"max.message.bytes": "3000000"})
    to, dead = (broker.make_topic(f"l-{format}-{name}", 1) for name in ("out", "dead"))
    producer = RetryingProducer(broker.servers, **{"message.max.bytes": 3_000_000})
    ids, payloads = ("small", "large", "last"), ("p", "x" * 1_200_000, "p")
    messages = [
        {"id": id, "key": "k", "due": 1000, "payload": payload} for id, payload in zip(ids, payloads, strict=True)
    ]
    records = as_json(*messages)
    if format == "headers":
        records = [("k", one["payload"], [("id", one["id"]), ("due", "1000")]) for one in messages]
    producer.send(f"l-{format}-in", records)
    delivery = deliver(source, to, dead, KafkaOptions(format))
    found = read(to).until(lambda found: len(found) == 2, failing(delivery))
    assert [headers_of(one)["id"] for one in found] == ["small", "last"]
    (letter,) = read(dead).until(lambda found: found, failing(delivery))
    headers = headers_of(letter)
    size = len(records[1][1]) + (format == "headers")  # with the key
    assert headers["reason"] == f"larger than --largest-message: {size} bytes"
    assert headers["__connect.errors.offset"] == "1" and letter.key() == b"k" and letter.value() is None


def test_records_with_headers_and_binary_values(broker, spark, deliver, read, tmp_path):
    source, to = broker.make_topic("b-in", 2), broker.make_topic("b-out", 2)
    due = str(int(time.time() * 1000) + 3000).encode()
    key, payload = b"\xff\x00k", bytes(range(256))
    headers = [("id", b"first"), ("id", b"m1"), ("due", due), ("trace", b"\xff")]
    RetryingProducer(broker.servers).send(
        "b-in",
        [
            (key, payload, headers),
            (key, payload, headers),
            (key, b"", [("id", b"m2"), ("due", due)]),
            (key, None, [("id", b"m2"), ("due", due), ("cancel", b"true")]),
            (None, "ä".encode(), [("id", "ä".encode()), ("due", due), ("cancel", b"false")]),
            (key, b"no id", [("due", due)]),
            (None, b"no due", [("id", b"m3"), ("due", b"soon"), ("reason", b"mine")]),
            (None, b"what id", [("id", b"\xff"), ("due", due)]),
            (None, None, None),
            (key, b"\xfe later", [("id", b"far"), ("due", b"32503680000000")]),
        ],
    )
    dead = broker.make_topic("b-dead")
    delivery = deliver(source, to, dead, KafkaOptions("headers"))
    found = read(to).until(lambda found: len(found) >= 2, failing(delivery))
    malformed = read(dead).until(lambda found: len(found) >= 4, failing(delivery))
    assert {(one.key(), one.value(), tuple(sorted(one.headers()))) for one in found} == {
        (key, payload, (("due", due), ("id", b"m1"))),
        (None, "ä".encode(), (("due", due), ("id", "ä".encode()))),
    }
    assert len(found) == 2
    # After its own headers and the reason, a dead letter has the headers of Kafka Connect.
    for one in malformed:
        *_, why = one.headers()[:-4]
        connect = {name.removeprefix("__connect.errors."): value.decode() for name, value in one.headers()[-4:]}
        assert connect.pop("partition") in "012" and connect.pop("offset").isdecimal()
        assert connect == {"topic": "b-in", "exception.message": why[1].decode()}
    assert Counter((one.key(), one.value(), tuple(one.headers()[:-4])) for one in malformed) == Counter(
        [
            (key, b"no id", (("due", due), ("code", b"no-id"), ("reason", b"id is null"))),
            (
                None,
                b"no due",
                (("id", b"m3"), ("due", b"soon"), ("reason", b"mine"), ("code", b"no-due"), ("reason", b"due is null")),
            ),
            (None, b"what id", (("id", b"\xff"), ("due", due), ("code", b"no-id"), ("reason", b"id is null"))),
            (None, None, (("code", b"no-id"), ("reason", b"id is null"))),
        ]
    )
    wait_for((tmp_path / "state" / MESSAGES / "commits" / "0").exists, delivery)
    (far,) = matching_rows(spark, str(tmp_path / "state" / MESSAGES), "far")
    assert (far["key"], far["payload"]) == ("\\xff\0k", ["\\xfe later"])


def test_replace_header(broker, spark, deliver, read, tmp_path):
    source, to, dead = (broker.make_topic(name, 1) for name in ("r-in", "r-out", "r-dead"))
    kafka, now_ms = KafkaOptions("headers"), int(time.time() * 1000)

    def record(value, due_ms, **headers):
        named = [("id", b"m1"), ("due", str(due_ms).encode()), *((name, one.encode()) for name, one in headers.items())]
        return b"k", value, named

    RetryingProducer(broker.servers).send(
        "r-in",
        [
            record(b"first", now_ms + 3_600_000),
            record(b"the last word", now_ms + 2000, replace="True", trace="kept"),
            record(b"neither", now_ms + 2000, replace="yes"),
        ],
    )
    delivery = deliver(source, to, dead, kafka, replace(WHEEL, source="a topic with headers", by_id=True))
    (out,) = read(to).until(lambda found: len(found) >= 1, failing(delivery))
    (malformed,) = read(dead).until(lambda found: len(found) >= 1, failing(delivery))
    wait_for((tmp_path / "state" / MESSAGES / "commits" / "0").exists, delivery)
    held = matching_rows(spark, str(tmp_path / "state" / MESSAGES), "m1")
    assert (out.key(), out.value(), headers_of(out)["due"]) == (b"k", b"the last word", str(now_ms + 2000))
    assert "replace" not in headers_of(out)
    assert (malformed.value(), headers_of(malformed)["reason"]) == (b"neither", "replace is neither true nor false")
    assert all(row["cancelled"] for row in held), "the first message was replaced"


def test_repeated_batch_and_the_consumer_of_the_page(broker, deliver, read, tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n((?s:.*?))```", PAGE.read_text())
    names = {}
    exec(compile(code, str(PAGE), "exec"), names)
    to, dead = broker.make_topic("c-out", 3), broker.make_topic("c-dead")
    due = int(time.time() * 1000) - 1000
    messages = [{"id": f"m{i}", "key": f"k{i % 7}", "due": due - i, "payload": "p"} for i in range(300)]
    messages.append({"id": "m0", "key": "k0", "due": due + 500, "payload": "the same id, another time"})
    lines = [*map(json.dumps, messages), "no message", json.dumps({"key": "k", "due": 1})]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("\n".join(lines))

    finish, cut_off = TopicSink.finish, []

    def crash(self, batch, batch_id, any_rows):
        if any_rows and self.topic.name == "c-out" and not cut_off:
            cut_off.append(batch_id)
            raise RuntimeError("sent and not committed")
        finish(self, batch, batch_id, any_rows)

    monkeypatch.setattr(TopicSink, "finish", crash)
    first = deliver(tmp_path / "in", to, dead)
    out = read(to)
    out.until(lambda found: first.error() is not None, first.tend)
    first.stop()
    assert cut_off and "sent and not committed" in first.error()
    assert len(out.messages) > 0

    def settings():
        return {"bootstrap.servers": broker.servers, "group.id": "c"}

    def inbox():
        with sqlite3.connect(tmp_path / "inbox") as base:
            return base.execute("SELECT id, CAST(due AS INTEGER), message FROM inbox ORDER BY rowid").fetchall()

    polls = iter(range(10_000))
    names["take"](settings(), "c-out", tmp_path / "inbox", lambda: next(polls) > 2 and inbox())
    second = deliver(tmp_path / "in", to, dead)
    out.until(lambda found: Counter(headers_of(one)["id"] for one in found)["m299"] == 2, failing(second))
    names["take"](settings(), "c-out", tmp_path / "inbox", lambda: len(inbox()) >= len(messages))
    assert len(out.more()) > len(messages), "at least once"
    taken = inbox()
    assert Counter(row[:2] for row in taken) == Counter((one["id"], one["due"]) for one in messages), "exactly once"
    by_key = defaultdict(list)
    for _, row_due, value in taken:
        by_key[json.loads(value)["key"]].append(row_due)
    assert all(of_key == sorted(of_key) for of_key in by_key.values())
    malformed = read(dead).until(lambda found: len(found) >= 2, failing(second))
    assert {(one.key(), one.value()) for one in malformed} == {
        (None, b"no message"),
        (b"k", b'{"key": "k", "due": 1}'),
    }


def test_topic_to_files(broker, deliver, tmp_path):
    source = broker.make_topic("d-in", 2)
    soon = int(time.time() * 1000)
    producer = RetryingProducer(broker.servers)
    messages = [{"id": f"m{i}", "due": soon + i, "payload": "p"} for i in range(200)]
    records = [(f"k{i % 5}", value, None) for i, (_, value, _) in enumerate(as_json(*messages))]
    producer.send("d-in", records)
    producer.send("d-in", [("k", b"{", None), (b"\xff", json.dumps({"id": "m200", "due": soon}).encode(), None)])

    def rows(name):
        return [
            json.loads(line)
            for file in sorted((tmp_path / name).glob("*.json"))
            for line in file.read_text().splitlines()
        ]

    first = deliver(source, tmp_path / "out", tmp_path / "dead", KafkaOptions(offsets_a_batch=50))
    wait_for(lambda: rows("out") and first.messages.recentProgress, first)
    first.stop()
    assert max(batch.numInputRows for batch in first.messages.recentProgress) <= 50
    producer.send("d-in", [*records, *as_json({"id": "later", "key": "own", "due": soon, "payload": "ä"})])
    second = deliver(source, tmp_path / "out", tmp_path / "dead", KafkaOptions(starting_offsets="latest"))
    wait_for(lambda: len(rows("out")) >= 202 and rows("dead"), second)
    assert second.error() is None
    second.stop()
    keys = {f"m{i}": f"k{i % 5}" for i in range(200)} | {"m200": "\\xff", "later": "own"}
    assert sorted(row["id"] for row in rows("out")) == sorted(keys), "exactly once"
    assert all(row["key"] == keys[row["id"]] for row in rows("out"))
    (row,) = rows("dead")
    assert (row["line"], row["reason"]) == ("{", "not a JSON object")
    assert {"partition", "offset"} < {*row} and "record" not in row


def test_unreachable_topics_are_refused(broker, spark):
    options = KafkaOptions(conf={"default.api.timeout.ms": "1000", "request.timeout.ms": "1000"})
    broker.make_topic("e")
    check_topic(spark, Topic(broker.servers, "e"), options)
    with pytest.raises(KafkaError, match=rf"^the topic f does not exist at {broker.servers}: create it first$"):
        check_topic(spark, Topic(broker.servers, "f"), options)
    with pytest.raises(KafkaError, match="^no broker answers at 127.0.0.1:1$"):
        check_topic(spark, Topic("127.0.0.1:1", "e"), options)
    with pytest.raises(KafkaError, match="^kafka://nowhere.invalid:9092/e: No resolvable bootstrap urls"):
        check_topic(spark, Topic("nowhere.invalid:9092", "e"), options)
    with pytest.raises(KafkaError, match="KafkaClient"):
        check_topic(spark, Topic(broker.servers, "e"), KafkaOptions(conf={"security.protocol": "SASL_PLAINTEXT"}))


@pytest.mark.parametrize("format", ["json", "headers"])
def test_topic_named_in_a_message_and_carried_headers(format, broker, deliver, read):
    source, to, other, dead = (broker.make_topic(f"t-{format}-{name}") for name in ("in", "out", "other", "dead"))
    named = other.rpartition("/")[2]
    due = int(time.time() * 1000) + 2000
    own_headers = {"m1": [("trace", b"1"), ("id", b"of another"), ("trace", b"2")], "m2": None, "m3": [("trace", b"3")]}
    topics = {"m1": named, "m2": None, "m3": "nowhere"}

    def record(id):
        topic = topics[id]
        if format == "json":
            fields = {"id": id, "key": "k", "due": due, "payload": "p"} | ({"topic": topic} if topic else {})
            return b"k", json.dumps(fields).encode(), own_headers[id]
        own = [("id", id.encode()), ("due", str(due).encode()), *([("topic", topic.encode())] if topic else [])]
        return b"k", b"p", [*(own_headers[id] or []), *own]

    RetryingProducer(broker.servers).send(f"t-{format}-in", [record(id) for id in topics])
    kafka = KafkaOptions(format, topics=(named, to.rpartition("/")[2]), carry_headers=True)
    delivery = deliver(source, to, dead, kafka)
    (first,) = read(other).until(lambda found: len(found) >= 1, failing(delivery))
    (second,) = read(to).until(lambda found: len(found) >= 1, failing(delivery))
    (third,) = read(dead).until(lambda found: len(found) >= 1, failing(delivery))
    identity = [("id", b"m1"), ("due", str(due).encode())]
    assert first.headers() == [("trace", b"1"), ("trace", b"2"), *identity]
    assert second.headers() == [("id", b"m2"), ("due", str(due).encode())]
    value = {"id": "m1", "key": "k", "due": due, "payload": "p"}
    assert (json.loads(first.value()) == value) if format == "json" else (first.value() == b"p")
    assert first.key() == b"k" and first.timestamp()[1] >= due, "never early"
    assert headers_of(third)["reason"].startswith("topic is none of --to-topics: ")
    assert (third.key(), third.value()) == record("m3")[:2]
