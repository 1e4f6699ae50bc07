"""Immutable snapshots of a wheel, for tests, teaching, and `hwheel trace`."""

from typing import Any, NamedTuple


class Bucket(NamedTuple):
    """A non-empty bucket.

    Attributes:
        level: Level of the wheel, from 1.
        index: virtual_id % wheel_size.
        expiration_ms: Time at which the bucket is due.
        tasks: The TimerTasks in the order in which they will come out.
    """

    level: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not needed here
    expiration_ms: int
    tasks: tuple[Any, ...]


Bucket.__module__ = "hwheel.types"


class Level(NamedTuple):
    """One level of the hierarchy: its tick, interval, and clock in milliseconds, and its non-empty buckets."""

    tick_ms: int
    interval_ms: int
    current_time_ms: int
    buckets: tuple[Bucket, ...]


Level.__module__ = "hwheel.types"


class WheelSnapshot(NamedTuple):
    """A snapshot of a wheel.

    Attributes:
        levels: The levels, finest first.
        queue: The delay queue: the buckets of all levels in the order of their expiration.
        due: Tasks that have left their bucket and wait for poll(), in order: advance_clock() has passed them, or they
            were rescheduled to the current time.
    """

    levels: tuple[Level, ...]
    queue: tuple[Bucket, ...]
    due: tuple[Any, ...] = ()


WheelSnapshot.__module__ = "hwheel.types"
