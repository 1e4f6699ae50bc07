"""Shards: the groups that a query's keys fall into, spread evenly over its state partitions.

Spark puts a group into partition pmod(murmur3(group), partitions). With one to four shards a partition, numbers taken
as they come would leave partitions empty and others with double work; so each shard gets a label that falls into the
partition that it is meant for.
"""

MASK = 0xFFFFFFFF


def labels(shards: int, partitions: int) -> list[int]:
    """Distinct labels, shard i's in state partition i % partitions.

    >>> [partition_of(label, 3) for label in labels(6, 3)]
    [0, 1, 2, 0, 1, 2]
    """
    wanted: list[list[int]] = [[] for _ in range(partitions)]
    rounds = -(-shards // partitions)
    missing = partitions
    candidate = 0
    while missing:
        found = wanted[partition_of(candidate, partitions)]
        if len(found) < rounds:
            found.append(candidate)
            missing -= len(found) == rounds
        candidate += 1
    return [wanted[shard % partitions][shard // partitions] for shard in range(shards)]


def partition_of(label: int, partitions: int) -> int:
    """Where Spark puts a group of this number: its Murmur3 hash of an int, with seed 42, by the partitions."""
    mixed = rotated(label * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    value = (rotated(42 ^ mixed, 13) * 5 + 0xE6546B64) & MASK
    value ^= 4
    value = (value ^ value >> 16) * 0x85EBCA6B & MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & MASK
    value ^= value >> 16
    return (value - (1 << 32) if value >> 31 else value) % partitions


def rotated(value: int, bits: int) -> int:
    """32 bits, rotated left."""
    return (value << bits | value >> 32 - bits) & MASK
