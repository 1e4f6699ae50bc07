"""The steps of a trace, and their JSON form."""

from typing import Any, NamedTuple

from hwheel.cli.common import CommandError
from hwheel_core import Bucket as WheelBucket
from hwheel_core import TimerTask, TimingWheel

JSON_VERSION = 1


class Place(NamedTuple):
    """A bucket of the wheel: its level, from 1, its index in the level, and its expiration."""

    level: int
    bucket: int
    expiration_ms: int


class Bucket(NamedTuple):
    """A non-empty bucket, with the numbers of its tasks in the order of expiry."""

    place: Place
    tasks: tuple[int, ...]


class Level(NamedTuple):
    """One wheel of the hierarchy."""

    level: int
    tick_ms: int
    interval_ms: int
    current_time_ms: int
    buckets: tuple[Bucket, ...]


class Snapshot(NamedTuple):
    """A snapshot of the wheel. queue: the same buckets in order of expiration."""

    levels: tuple[Level, ...]
    queue: tuple[Bucket, ...]


class Move(NamedTuple):
    """A task that moved to another bucket. origin: None for an added task."""

    task: int
    origin: Place | None
    target: Place


class Step(NamedTuple):
    """A step: kind is "start", "add", or "poll"; task is the added task; due are the expired tasks in order."""

    kind: str
    time_ms: int
    task: int | None
    due: tuple[int, ...]
    moved: tuple[Move, ...]
    snapshot: Snapshot


class Task(NamedTuple):
    """A task of the trace, numbered from 1 in the order of the adds."""

    number: int
    delay_ms: int
    expiration_ms: int


class Trace(NamedTuple):
    """The start, each add, and each poll until nothing is pending."""

    tick_ms: int
    wheel_size: int
    start_ms: int
    tasks: tuple[Task, ...]
    steps: tuple[Step, ...]


class NumberedTask(TimerTask):
    """A TimerTask with a number, which identifies the task in snapshots."""

    def __init__(self, delay_ms: int, number: int) -> None:
        super().__init__(delay_ms)
        self.number = number


def trace(tick_ms: int, wheel_size: int, start_ms: int, delays_ms: list[int]) -> Trace:
    """Add a task for each delay at ``start_ms``, then poll at each expiration of the delay queue until it is empty.

    Raises:
        CommandError: A time does not fit into 64 bits.
    """
    try:
        return _trace(tick_ms, wheel_size, start_ms, delays_ms)
    except (ValueError, OverflowError) as error:
        raise CommandError(str(error)) from None


def _trace(tick_ms: int, wheel_size: int, start_ms: int, delays_ms: list[int]) -> Trace:
    wheel = TimingWheel(tick_ms, wheel_size, start_ms)
    tasks = tuple(Task(number, delay_ms, start_ms + delay_ms) for number, delay_ms in enumerate(delays_ms, 1))
    before = snapshot_of(wheel)
    steps = [Step("start", start_ms, None, (), (), before)]
    for task in tasks:
        added = wheel.add(NumberedTask(task.delay_ms, task.number), task.expiration_ms)
        after = snapshot_of(wheel)
        due: tuple[int, ...] = () if added else (task.number,)
        steps.append(Step("add", start_ms, task.number, due, moves(before, after), after))
        before = after
    while (now_ms := wheel.next_expiration_ms) is not None:
        due = tuple(found.number for found in wheel.poll(now_ms) if isinstance(found, NumberedTask))
        after = snapshot_of(wheel)
        steps.append(Step("poll", now_ms, None, due, moves(before, after), after))
        before = after
    return Trace(tick_ms, wheel_size, start_ms, tasks, tuple(steps))


def snapshot_of(wheel: TimingWheel) -> Snapshot:
    """Return a snapshot of the wheel with tasks as their numbers."""
    found = wheel.snapshot()
    return Snapshot(
        tuple(
            Level(number, level.tick_ms, level.interval_ms, level.current_time_ms, tuple(map(_bucket, level.buckets)))
            for number, level in enumerate(found.levels, 1)
        ),
        tuple(map(_bucket, found.queue)),
    )


def moves(before: Snapshot, after: Snapshot) -> tuple[Move, ...]:
    """Return the tasks that moved between two snapshots, by number."""
    origins = _places(before)
    return tuple(
        Move(task, origins.get(task), target)
        for task, target in sorted(_places(after).items())
        if target != origins.get(task)
    )


def _bucket(bucket: WheelBucket) -> Bucket:
    return Bucket(Place(*bucket[:3]), tuple(task.number for task in bucket.tasks))


def _places(snapshot: Snapshot) -> dict[int, Place]:
    return {task: bucket.place for bucket in snapshot.queue for task in bucket.tasks}


# --- JSON -------------------------------------------------------------------------------------------------------------


def trace_as_json(trace: Trace) -> dict[str, Any]:
    """Return the structure that ``hwheel trace --help`` describes. A change that breaks readers raises ``version``."""
    return {
        "version": JSON_VERSION,
        "tick_ms": trace.tick_ms,
        "wheel_size": trace.wheel_size,
        "start_ms": trace.start_ms,
        "tasks": [
            {"task": task.number, "delay_ms": task.delay_ms, "expiration_ms": task.expiration_ms}
            for task in trace.tasks
        ],
        "steps": [_step_as_json(step) for step in trace.steps],
    }


def _step_as_json(step: Step) -> dict[str, Any]:
    return {
        "step": step.kind,
        "time_ms": step.time_ms,
        "task": step.task,
        "due": list(step.due),
        "moved": [
            {
                "task": move.task,
                "from": None if move.origin is None else _place_as_json(move.origin),
                "to": _place_as_json(move.target),
            }
            for move in step.moved
        ],
        "levels": [
            {
                "level": level.level,
                "tick_ms": level.tick_ms,
                "interval_ms": level.interval_ms,
                "current_time_ms": level.current_time_ms,
                "buckets": [_bucket_as_json(bucket) for bucket in level.buckets],
            }
            for level in step.snapshot.levels
        ],
        "queue": [_bucket_as_json(bucket) for bucket in step.snapshot.queue],
    }


def _place_as_json(place: Place) -> dict[str, Any]:
    return {"level": place.level, "bucket": place.bucket, "expiration_ms": place.expiration_ms}


def _bucket_as_json(bucket: Bucket) -> dict[str, Any]:
    return {**_place_as_json(bucket.place), "tasks": list(bucket.tasks)}
