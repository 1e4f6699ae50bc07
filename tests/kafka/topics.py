"""What the tests put into topics and read from them."""

import json
import time

from confluent_kafka import Consumer, Producer, TopicPartition

PATIENCE_S = 300


class Careless:
    """A producer that, when an answer is lost, sends again, and whose records are then there twice."""

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
        """(key, value, headers) each; returns when the broker has them."""
        for key, value, headers in records:
            self.producer.produce(topic, key=key, value=value, headers=headers, on_delivery=self.delivered)
            self.producer.poll(0)
        assert self.producer.flush(PATIENCE_S) == 0
        assert not self.failed, self.failed[:3]

    def delivered(self, error, message):
        if error is not None:
            self.failed.append(error)


def as_json(*messages):
    """Records with JSON values."""
    return [(message.get("key"), json.dumps(message), None) for message in messages]


class Reader:
    """Reads a topic from its beginning, as it grows."""

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
        """Reads what is there; returns all so far."""
        while batch := self.consumer.consume(10_000, wait_s):
            for message in batch:
                assert message.error() is None, message.error()
                self.messages.append(message)
        return self.messages

    def until(self, condition, alive=lambda: None):
        """Reads until condition(messages); `alive` raises if there is no hope."""
        give_up = time.monotonic() + PATIENCE_S
        while not condition(self.more()):
            alive()
            assert time.monotonic() < give_up, f"{len(self.messages)} messages came, and no more"
        return self.messages

    def close(self):
        self.consumer.close()


def headers_of(message):
    """As text."""
    return {name: value.decode() for name, value in message.headers() or []}
