"""Exactly once into a topic: each task sends its rows of a batch in a transaction of Kafka, with a mark of the batch.

The mark is an offset that a group of the task commits in the same transaction: the number of the next batch, with the
time of this batch as its metadata. A repeated batch has the same rows in the same tasks, so a task that finds the mark
of its batch sends nothing. Each attempt first takes over the transactional id of the task, which aborts the open
transaction of an earlier attempt and makes the brokers refuse a process that was believed dead.

A mark of a later batch, or of another batch with this number, means that the checkpoint is an older copy.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hwheel.extras import needed_by
from hwheel.spark.deliver.checkpoint import batch_time_ms
from hwheel.spark.deliver.sink import QUERY_ID, BatchNotWrittenError, TopicSink
from hwheel.spark.deliver.topic import Topic
from hwheel.spark.worker import begin_task
from hwheel_core import HwheelError

with needed_by("hwheel.spark.deliver.transactions", "kafka"):
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

PRODUCER = {
    "acks": "all",
    "transaction.timeout.ms": 900_000,  # the brokers' own limit
    "partitioner": "murmur2_random",  # as Java's producers, so that a key stays in its partition
    "log_level": 2,
}
# Some requests do not say which of their errors are temporary.
TEMPORARY = {"_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "UNSTABLE_OFFSET_COMMIT"}
TEMPORARY |= {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"}
TRY_S = 30.0
RETRY_S = 0.2
AHEAD = (
    "{topic} has messages of batch {found}, but the checkpoint has {batch_id} as its next: the checkpoint is an older "
    "copy\nrestore the newest one, or start with a new checkpoint"
)

Answer = TypeVar("Answer")


class OlderCheckpointError(HwheelError, RuntimeError):
    """The topic has later batches than the checkpoint."""


@dataclass(frozen=True)
class BatchTransaction:
    """Sends the rows of a batch inside mapInArrow. Rows are records: topic, key, value, and headers.

    Args:
        conf: Settings of librdkafka, with the brokers.
        query_id: The id of the query, which the checkpoint keeps.
        batch_ms: The time of the batch. A repeated batch has the same time.
    """

    topic: Topic
    conf: dict[str, str]
    query_id: str
    batch_id: int
    batch_ms: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        context = TaskContext.get()
        assert context is not None
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        sent = 0 if first is None else self.send(chain([first], rows), context.partitionId())
        yield pa.RecordBatch.from_pydict({"sent": pa.array([sent], pa.int64())})

    def name_of(self, task: int) -> str:
        """Return the transactional id of a task, which is also the name of its group."""
        return f"hwheel-{self.query_id}-{task}"

    def send(self, batches: Iterable[pa.RecordBatch], task: int) -> int:
        """Send the rows of a task, unless an earlier attempt has committed them; return their number."""
        name = self.name_of(task)
        producer = Producer({**PRODUCER, **self.conf, "transactional.id": name})
        retried(lambda: producer.init_transactions(TRY_S))
        with closing(self.group_of(task)) as consumer:
            if self.is_sent(consumer):
                return sum(batch.num_rows for batch in batches)  # the state is updated only if its output is read
            producer.begin_transaction()
            try:
                rows = 0
                for batch in batches:
                    for record in batch.to_pylist():
                        produce(producer, record)
                    rows += batch.num_rows
                group = consumer.consumer_group_metadata()
                mark = TopicPartition(self.topic.name, 0, self.batch_id + 1, str(self.batch_ms))
                retried(lambda: producer.send_offsets_to_transaction([mark], group, TRY_S))
                retried(lambda: producer.commit_transaction(TRY_S))
            except BaseException:
                with suppress(KafkaException):
                    producer.abort_transaction(TRY_S)
                raise
        return rows

    def group_of(self, task: int) -> Consumer:
        """Return a consumer of the task's group. It reads only the mark, and waits while a transaction may change it.

        An AdminClient cannot replace it: librdkafka 2.16 crashes if the group's coordinator has moved.
        """
        return Consumer(
            {**self.conf, "group.id": self.name_of(task), "isolation.level": "read_committed", "log_level": 2}
        )

    def is_sent(self, group: Consumer) -> bool:
        """Return True if the task of this group has committed this batch.

        Raises:
            OlderCheckpointError: The task has committed a later batch, or another batch with this number.
        """

        def ask() -> TopicPartition:
            (found,) = group.committed([TopicPartition(self.topic.name, 0)], TRY_S)
            if found.error is not None:
                raise KafkaException(found.error)
            return found

        mark = retried(ask)
        if mark.offset <= self.batch_id:  # negative without a mark
            return False
        if (mark.offset, mark.metadata) != (self.batch_id + 1, str(self.batch_ms)):
            raise OlderCheckpointError(AHEAD.format(topic=self.topic, found=mark.offset - 1, batch_id=self.batch_id))
        return True


def produce(producer: Producer, record: dict[str, Any]) -> None:
    headers = [(header["key"], header["value"]) for header in record["headers"] or ()]
    while True:
        try:
            producer.produce(record["topic"], record["value"], record["key"], headers=headers)
        except BufferError:  # the queue is full
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def retried(call: Callable[[], Answer]) -> Answer:
    """Repeat a call while it fails for a temporary reason, such as brokers that do not answer."""
    while True:
        try:
            return call()
        except KafkaException as error:
            if not (error.args[0].retriable() or error.args[0].name() in TEMPORARY):
                raise
        time.sleep(RETRY_S)


@dataclass(kw_only=True)
class TransactionSink(TopicSink):
    """A topic that gets the messages of each batch exactly once, for readers with isolation.level=read_committed.

    Args:
        one_task: Send each batch in one task. Required where a repeated batch may divide its rows among tasks
            differently.
        partitions: The number of tasks otherwise.
    """

    one_task: bool
    partitions: int
    checked: bool = False

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Send the rows, each task in a transaction."""
        query_id = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        batch_ms = None if self.query is None else batch_time_ms(self.query, batch_id)
        if query_id is None or batch_ms is None:
            raise BatchNotWrittenError(f"batch {batch_id} has no time in the checkpoint")
        conf = {**self.options.producer_conf, "bootstrap.servers": self.topic.brokers}
        transaction = BatchTransaction(self.topic, conf, query_id, batch_id, batch_ms)
        if not self.checked:  # a task sees only its own mark, and only if it has rows
            for task in range(1 if self.one_task else self.partitions):
                with closing(transaction.group_of(task)) as group:
                    transaction.is_sent(group)
            self.checked = True
        rows = self.records(batch).withColumn("topic", F.coalesce("topic", F.lit(self.topic.name)))
        if self.one_task:
            rows = rows.repartition(1)
        rows.mapInArrow(transaction, "sent bigint").collect()


def check_producer(conf: dict[str, str]) -> None:
    """Raise ValueError if librdkafka refuses a setting."""
    try:
        Producer({**PRODUCER, **conf, "transactional.id": "hwheel-check"})
    except KafkaException as error:
        raise ValueError(error.args[0].str()) from None
