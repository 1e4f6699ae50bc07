"""`hwheel deliver --exactly-once`: a consumer with read_committed gets each message once, whatever is killed."""

import json
import random
import shutil
import time
from collections import Counter, defaultdict

import pytest

import chaos
import chaos_sender
from hwheel.spark.deliver import rest
from hwheel.spark.deliver.checkpoint import MESSAGES
from hwheel.spark.deliver.delivery import start_delivery
from hwheel.spark.deliver.settings import DeliverySettings, Places, WheelOptions
from hwheel.spark.deliver.topic import KafkaOptions
from hwheel.spark.deliver.transactions import TransactionSink, check_producer
from programs import GuardedJob
from topics import PATIENCE_S, Reader, headers_of

KILLS = 2
WHEEL = WheelOptions("100 milliseconds", 16, 2, 2, "10 minutes")
KAFKA = KafkaOptions(exactly_once=True)


class Job(GuardedJob, chaos.Job):
    """A job that ends with the test."""


class Sender(chaos_sender.FileSender):
    """Sends files without bad ones, with duplicates and cancels."""

    def send(self, number, records):
        self.put(f"{number}.json", b"".join(chaos_sender.as_lines(records)))


def ids_of(reader):
    return Counter(headers_of(message)["id"] for message in reader.more())


@pytest.fixture
def deliver(spark, tmp_path, monkeypatch):
    """deliver(to, dead): a running delivery from the files of `in`, which is stopped at the end."""
    running = []
    monkeypatch.setattr(rest, "LONGEST_WAIT_S", 0.5)  # tests wait for the commit of a batch

    def start(to, dead):
        places = Places(str(tmp_path / "in"), to, dead, str(tmp_path / "state"))
        running.append(start_delivery(spark, DeliverySettings(places, WHEEL, KAFKA, trigger="300 milliseconds")))
        return running[-1]

    yield start
    for delivery in running:
        delivery.stop()


def put(directory, name, *messages):
    (directory / "in").mkdir(exist_ok=True)
    (directory / f".{name}").write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in messages))
    (directory / f".{name}").rename(directory / "in" / name)


def wait_for(condition, delivery):
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        failure = delivery.tend()
        assert failure is None, failure
        assert time.monotonic() < give_up
        time.sleep(0.1)


def test_batch_that_was_sent_and_not_committed_is_not_sent_again(broker, deliver, tmp_path, monkeypatch):
    to, dead = broker.make_topic("once-out", 3), broker.make_topic("once-dead")
    due = int(time.time() * 1000) - 1000
    put(
        tmp_path,
        "a.json",
        *({"id": f"m{i}", "key": f"k{i % 7}", "due": due - i, "payload": "p"} for i in range(300)),
        "no",
    )
    finish, cut_off = TransactionSink.finish, []

    def crash(self, batch, batch_id, any_rows):
        if any_rows and self.topic.name not in cut_off:
            cut_off.append(self.topic.name)
            raise RuntimeError("sent and not committed")
        finish(self, batch, batch_id, any_rows)

    monkeypatch.setattr(TransactionSink, "finish", crash)
    first = deliver(to, dead)
    give_up = time.monotonic() + PATIENCE_S
    while len(cut_off) < 2 or first.message_run.query.isActive or first.letter_run.query.isActive:
        assert time.monotonic() < give_up
        time.sleep(0.1)
    first.stop()
    second = deliver(to, dead)
    out, letters = Reader(broker, "once-out"), Reader(broker, "once-dead")
    try:
        put(tmp_path, "b.json", {"id": "later", "key": "k", "due": due}, "also no")
        wait_for(lambda: ids_of(out)["later"] and len(letters.more()) >= 2, second)
        time.sleep(1)
        assert {*ids_of(out).values()} == {1} and len(ids_of(out)) == 301
        assert sorted(one.value() for one in letters.more()) == [b"also no", b"no"]
        by_key = defaultdict(list)
        for message in out.messages:
            by_key[message.key()].append(int(headers_of(message)["due"]))
        assert all(dues == sorted(dues) for key, dues in by_key.items() if key != b"k")
    finally:
        out.close()
        letters.close()


def test_older_copy_of_the_checkpoint_is_refused(broker, deliver, tmp_path):
    to, dead = broker.make_topic("older-out"), broker.make_topic("older-dead")
    commits = tmp_path / "state" / MESSAGES / "commits"
    out = Reader(broker, "older-out")
    due = int(time.time() * 1000) - 1000

    def run(name):
        put(tmp_path, f"{name}.json", {"id": name, "key": "k", "due": due})
        delivery = deliver(to, dead)
        wait_for(lambda: ids_of(out)[name], delivery)
        before = max(int(one.name) for one in commits.glob("[0-9]*"))
        wait_for(lambda: (commits / str(before + 1)).exists(), delivery)
        delivery.stop()

    try:
        run("a")
        shutil.copytree(tmp_path / "state", tmp_path / "copy")
        run("b")
        shutil.rmtree(tmp_path / "state")
        (tmp_path / "copy").rename(tmp_path / "state")
        delivery = deliver(to, dead)
        give_up = time.monotonic() + PATIENCE_S
        while (failure := delivery.tend()) is None:
            assert time.monotonic() < give_up
            time.sleep(0.1)
        assert "the checkpoint is an older copy" in str(failure)
        assert ids_of(out) == {"a": 1, "b": 1}
    finally:
        out.close()


def test_settings_of_the_producer(broker):
    options = KafkaOptions(conf={"a": "1", "producer.linger.ms": "7"})
    assert (options.java_conf, options.producer_conf) == ({"a": "1"}, {"linger.ms": "7"})
    check_producer(options.producer_conf)
    with pytest.raises(ValueError, match="No such configuration property"):
        check_producer({"buffer.memory": "1"})


@pytest.mark.slow
def test_kills_of_the_job_and_of_the_broker(broker, connector, tmp_path):
    """A reader with read_committed, the default of librdkafka, gets each message once and in order."""
    chance = random.Random(1)
    to = broker.make_topic("chaos-out", 3)
    broker.make_topic("chaos-out-dead-letters")
    (tmp_path / "in").mkdir()
    sender = Sender(tmp_path / "in", chance)
    job = Job(tmp_path, ["--from", "in", "--to", to, "--exactly-once"], [f"spark.jars={connector}"])
    out = Reader(broker, "chaos-out")
    sender.start()
    try:
        job.start()
        for number in range(KILLS):
            job.wait_for_a_batch()
            time.sleep(chance.uniform(0, 2))
            if number == 1:
                broker.kill()
                time.sleep(2)
                broker.start()
                assert broker.answers()
            else:
                job.kill()
                job.start()
        job.wait_for_a_batch()
        sender.done.set()
        sender.join()
        expected = sender.expected()

        def restarted():
            if job.process.poll() is not None:  # the broker was away for longer than a client waits
                job.start()

        out.until(lambda found: {headers_of(message)["id"] for message in found} >= expected, restarted)
        time.sleep(2)
        counts = ids_of(out)
    finally:
        sender.done.set()
        out.close()
        if job.process.poll() is None:
            job.kill()
    assert {*counts} == expected and {*counts.values()} == {1}
    dues = defaultdict(list)
    for message in out.messages:
        record = json.loads(message.value())
        dues[record["key"]].append(record["due"])
    assert all(of_key == sorted(of_key) for of_key in dues.values()), "in order per key"
    assert len(expected) > 300
