"""An immutable picture of a wheel, for tests, for teaching and for `hwheel trace`."""

from typing import Any, NamedTuple


class Bucket(NamedTuple):
    """A bucket that holds something.

    level counts from 1, index is virtual_id % wheel_size, expiration_ms is when the bucket falls due, tasks is a tuple
    of TimerTask in the order in which they will come out.
    """

    level: int
    index: int  # type: ignore[assignment]  # of a tuple it hides a method, which nobody needs here
    expiration_ms: int
    tasks: tuple[Any, ...]


Bucket.__module__ = "hwheel.types"


class Level(NamedTuple):
    """One wheel of the hierarchy: its tick, its interval and its clock in ms, and its non-empty buckets."""

    tick_ms: int
    interval_ms: int
    current_time_ms: int
    buckets: tuple[Bucket, ...]


Level.__module__ = "hwheel.types"


class WheelSnapshot(NamedTuple):
    """levels: finest first. queue: the delay queue, the same buckets in the order in which they fall due. due: tasks
    that have left their bucket and wait for poll(), in order: advance_clock() has passed them, or they were rescheduled
    to now."""

    levels: tuple[Level, ...]
    queue: tuple[Bucket, ...]
    due: tuple[Any, ...] = ()


WheelSnapshot.__module__ = "hwheel.types"
