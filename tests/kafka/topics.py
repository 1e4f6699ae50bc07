"""Producers and readers of topics."""

import json
import time

import pytest

pytest.importorskip("confluent_kafka", reason="no confluent_kafka: make test-kafka installs it")
from confluent_kafka import Consumer, Producer, TopicPartition

PATIENCE_S = 1800


class RetryingProducer:
    """A producer without idempotence: if an answer is lost, it sends again, and the topic has the records twice."""

    def __init__(self, servers, **settings):
        self.failed = []
        self.producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": False,
                "acks": "all",
                "linger.ms": 0,
                "batch.num.messages": 50,
                "retries": 1000,
                "retry.backoff.ms": 10,
                "reconnect.backoff.ms": 1,
                "reconnect.backoff.max.ms": 20,
                "log_level": 0,
                "socket.keepalive.enable": True,
                **settings,
            }
        )

    def send(self, topic, records):
        """Send records (key, value, headers); return when the broker has acknowledged them."""
        for key, value, headers in records:
            self.producer.produce(topic, key=key, value=value, headers=headers, on_delivery=self.delivered)
            self.producer.poll(0)
        assert self.producer.flush(PATIENCE_S) == 0
        assert not self.failed, self.failed[:3]

    def delivered(self, error, message):
        if error is not None:
            self.failed.append(error)


def as_json(*messages):
    """Return records with JSON values."""
    return [(message.get("key"), json.dumps(message), None) for message in messages]


class Reader:
    """Reads a topic from its beginning while it grows."""

    def __init__(self, broker, topic):
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.servers,
                "group.id": f"reader of {topic}",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        partitions = self.consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
        self.consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        self.messages = []

    def more(self, wait_s=0.2):
        """Read the new records; return all records so far."""
        while batch := self.consumer.consume(10_000, wait_s):
            for message in batch:
                assert message.error() is None, message.error()
                self.messages.append(message)
        return self.messages

    def until(self, condition, check=lambda: None):
        """Read until condition(records) is true, and return the records. check() fails if the sender has failed."""
        give_up = time.monotonic() + PATIENCE_S
        while not condition(self.more()):
            check()
            assert time.monotonic() < give_up, f"only {len(self.messages)} records arrived"
        return self.messages

    def close(self):
        self.consumer.close()


def headers_of(message):
    return {name: value.decode() for name, value in message.headers() or []}
