"""A miniature broker that shows the purpose of Kafka's purgatories.

- A producer with acks=all waits until every replica has its records, for at most `timeout_ms`.
- A consumer waits until it can fetch `min_bytes`, for at most `max_wait_ms`; then it fetches the available bytes.

Both wait on a key, the partition. Each event that can complete an operation is followed by `check_and_complete`. The
program uses a ManualTimer, so that its output is always the same; a real broker uses a SystemTimer.
"""

from hwheel import ManualTimer
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory

REPLICAS = ("broker-1", "broker-2")


class Partition:
    """A log, and the offset of each follower. The high watermark is the smallest offset."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.log: list[bytes] = []
        self.copied = dict.fromkeys(REPLICAS, 0)

    @property
    def high_watermark(self) -> int:
        return min(self.copied.values())

    def bytes_from(self, offset: int) -> int:
        return sum(map(len, self.log[offset : self.high_watermark]))


class DelayedProduce(DelayedOperation):
    """A produce request with acks=all, completed when all replicas have reached `last_offset`."""

    def __init__(self, broker: "Broker", partition: Partition, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.broker, self.partition = broker, partition
        self.last_offset = len(partition.log)
        self.answer = "acknowledged"

    def try_complete(self) -> bool:
        return self.partition.high_watermark >= self.last_offset and self.force_complete()

    def on_complete(self) -> None:
        if self.partition.high_watermark < self.last_offset:
            self.answer = "timed out, the replicas are behind"
        self.broker.say(f"produce to {self.partition.name} up to {self.last_offset}: {self.answer}")


class DelayedFetch(DelayedOperation):
    """A fetch request, completed with `min_bytes` from `offset`, or with fewer at the timeout."""

    def __init__(self, broker: "Broker", partition: Partition, offset: int, min_bytes: int, max_wait_ms: int) -> None:
        super().__init__(max_wait_ms)
        self.broker, self.partition, self.offset, self.min_bytes = broker, partition, offset, min_bytes

    def try_complete(self) -> bool:
        return self.partition.bytes_from(self.offset) >= self.min_bytes and self.force_complete()

    def on_complete(self) -> None:
        size = self.partition.bytes_from(self.offset)
        self.broker.say(f"fetch from {self.partition.name} at {self.offset}: {size} bytes of at least {self.min_bytes}")

    def on_expiration(self) -> None:
        self.broker.say("    (max_wait is over)")


class Broker:
    """The leader of all partitions."""

    def __init__(self, timer: ManualTimer) -> None:
        self.timer = timer
        self.produce_purgatory = DelayedOperationPurgatory[DelayedProduce]("produce", timer)
        self.fetch_purgatory = DelayedOperationPurgatory[DelayedFetch]("fetch", timer)

    def produce(self, partition: Partition, record: bytes, timeout_ms: int) -> None:
        partition.log.append(record)
        self.say(f"{len(record)} bytes written to {partition.name}")
        operation = DelayedProduce(self, partition, timeout_ms)
        self.produce_purgatory.try_complete_else_watch(operation, [partition.name])

    def fetch(self, partition: Partition, offset: int, min_bytes: int, max_wait_ms: int) -> None:
        operation = DelayedFetch(self, partition, offset, min_bytes, max_wait_ms)
        self.fetch_purgatory.try_complete_else_watch(operation, [partition.name])

    def replica_copied(self, partition: Partition, replica: str, up_to: int) -> None:
        """Record the offset of a follower. If the high watermark moves, check the waiting operations."""
        before = partition.high_watermark
        partition.copied[replica] = up_to
        self.say(f"{replica} has {partition.name} up to {up_to}")
        if partition.high_watermark > before:
            self.produce_purgatory.check_and_complete(partition.name)
            self.fetch_purgatory.check_and_complete(partition.name)

    def say(self, what: str) -> None:
        print(f"{self.timer.time() * 1000:4.0f} ms  {what}")


def main() -> None:
    with ManualTimer() as timer:
        broker = Broker(timer)
        orders, payments = Partition("orders"), Partition("payments")

        broker.fetch(orders, offset=0, min_bytes=10, max_wait_ms=500)  # waits for records
        timer.advance(0.01)
        broker.produce(orders, b"six-by", timeout_ms=100)  # waits for both replicas
        timer.advance(0.005)
        broker.replica_copied(orders, "broker-1", 1)
        timer.advance(0.005)
        broker.replica_copied(orders, "broker-2", 1)  # all replicas have the record; the fetch needs 10 bytes
        timer.advance(0.03)
        broker.produce(orders, b"six-mo", timeout_ms=100)
        broker.replica_copied(orders, "broker-2", 2)
        timer.advance(0.001)
        broker.replica_copied(orders, "broker-1", 2)  # completes the produce and the fetch
        timer.advance(0.049)
        broker.produce(payments, b"lost", timeout_ms=100)  # broker-2 never copies this
        broker.replica_copied(payments, "broker-1", 1)
        broker.fetch(payments, offset=0, min_bytes=1, max_wait_ms=50)
        timer.advance(1)

        for purgatory in (broker.produce_purgatory, broker.fetch_purgatory):
            print(f"{purgatory.name:8} {purgatory.stats()}")
            purgatory.close()


if __name__ == "__main__":
    main()
