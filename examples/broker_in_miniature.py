"""A broker in miniature: what Kafka's purgatories are for.

- A producer that asks for acks=all waits until every replica has what it wrote, but at most `timeout_ms`.
- A consumer waits until there are `min_bytes` for it to fetch, but at most `max_wait_ms`; then it takes what there is.

Both wait on keys (the partition), and each event that may help somebody is followed by one `check_and_complete`. Time
is a ManualTimer's here, so that the program prints the same every time; with a SystemTimer it would be real.
"""

from hwheel import ManualTimer
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory

REPLICAS = ("broker-1", "broker-2")


class Partition:
    """A log, and how far each follower has copied it. The high watermark is what all of them have."""

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
    """acks=all: answered when the replicas have everything up to `last_offset`."""

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
    """Answered when `min_bytes` can be read from `offset`, or with less when the time is over."""

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
    """The leader of its partitions."""

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
        """A follower's fetch tells how far it has come. If that moves the high watermark, somebody may be helped."""
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

        broker.fetch(orders, offset=0, min_bytes=10, max_wait_ms=500)  # nothing is there yet: it waits
        timer.advance(0.01)
        broker.produce(orders, b"six-by", timeout_ms=100)  # waits for both replicas
        timer.advance(0.005)
        broker.replica_copied(orders, "broker-1", 1)
        timer.advance(0.005)
        broker.replica_copied(orders, "broker-2", 1)  # all have it; the fetch wants 10 bytes
        timer.advance(0.03)
        broker.produce(orders, b"six-mo", timeout_ms=100)
        broker.replica_copied(orders, "broker-2", 2)
        timer.advance(0.001)
        broker.replica_copied(orders, "broker-1", 2)  # answers the producer and the consumer
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
