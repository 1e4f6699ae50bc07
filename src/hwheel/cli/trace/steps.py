"""How tasks travel through a wheel: the steps, computed. Draws nothing."""

from typing import NamedTuple

from hwheel.cli.common import CommandError
from hwheel_core import Bucket as WheelBucket
from hwheel_core import TimerTask, TimingWheel


class Place(NamedTuple):
    """A bucket: level from 1, and index = virtual_id % wheel_size. Two buckets that use the same place one after the
    other differ in when they fall due."""

    level: int
    bucket: int
    expiration_ms: int


class Bucket(NamedTuple):
    """A non-empty bucket, with the numbers of its tasks in the order in which they will come out."""

    place: Place
    tasks: tuple[int, ...]


class Level(NamedTuple):
    """One wheel of the hierarchy."""

    level: int
    tick_ms: int
    interval_ms: int
    current_time_ms: int
    buckets: tuple[Bucket, ...]


class Picture(NamedTuple):
    """The wheel at one moment. queue: the delay queue, the same buckets in the order in which they fall due."""

    levels: tuple[Level, ...]
    queue: tuple[Bucket, ...]


class Move(NamedTuple):
    """A task that went to another bucket: down, by a cascade, or from nowhere, by its add."""

    task: int
    origin: Place | None
    target: Place


class Step(NamedTuple):
    """kind: "start", "add" (of `task`) or "poll". due: the tasks that this step found due, in order."""

    kind: str
    time_ms: int
    task: int | None
    due: tuple[int, ...]
    moved: tuple[Move, ...]
    picture: Picture


class Task(NamedTuple):
    """A task of the trace, numbered from 1 in the order of the adds."""

    number: int
    delay_ms: int
    expiration_ms: int


class Trace(NamedTuple):
    """The whole way of all tasks: the start, each add, and each poll until nothing is pending."""

    tick_ms: int
    wheel_size: int
    start_ms: int
    tasks: tuple[Task, ...]
    steps: tuple[Step, ...]


class NumberedTask(TimerTask):
    """A TimerTask that a snapshot can be read by."""

    def __init__(self, delay_ms: int, number: int) -> None:
        super().__init__(delay_ms)
        self.number = number


def trace(tick_ms: int, wheel_size: int, start_ms: int, delays_ms: list[int]) -> Trace:
    """Adds a task for each delay at start_ms, then polls at each time that the delay queue names, until it is empty.

    Raises CommandError for what does not fit into a wheel.
    """
    try:
        return _trace(tick_ms, wheel_size, start_ms, delays_ms)
    except (ValueError, OverflowError) as error:
        raise CommandError(str(error)) from None


def _trace(tick_ms: int, wheel_size: int, start_ms: int, delays_ms: list[int]) -> Trace:
    wheel = TimingWheel(tick_ms, wheel_size, start_ms)
    tasks = tuple(Task(number, delay_ms, start_ms + delay_ms) for number, delay_ms in enumerate(delays_ms, 1))
    before = look_at(wheel)
    steps = [Step("start", start_ms, None, (), (), before)]
    for task in tasks:
        added = wheel.add(NumberedTask(task.delay_ms, task.number), task.expiration_ms)
        after = look_at(wheel)
        due: tuple[int, ...] = () if added else (task.number,)
        steps.append(Step("add", start_ms, task.number, due, moves(before, after), after))
        before = after
    while (now_ms := wheel.next_expiration_ms) is not None:
        due = tuple(found.number for found in wheel.poll(now_ms) if isinstance(found, NumberedTask))
        after = look_at(wheel)
        steps.append(Step("poll", now_ms, None, due, moves(before, after), after))
        before = after
    return Trace(tick_ms, wheel_size, start_ms, tasks, tuple(steps))


def look_at(wheel: TimingWheel) -> Picture:
    """A snapshot of the wheel with tasks as their numbers."""
    snapshot = wheel.snapshot()
    return Picture(
        tuple(
            Level(number, level.tick_ms, level.interval_ms, level.current_time_ms, tuple(map(_bucket, level.buckets)))
            for number, level in enumerate(snapshot.levels, 1)
        ),
        tuple(map(_bucket, snapshot.queue)),
    )


def moves(before: Picture, after: Picture) -> tuple[Move, ...]:
    """Who went where between two pictures, by number."""
    origins = _places(before)
    return tuple(
        Move(task, origins.get(task), target)
        for task, target in sorted(_places(after).items())
        if target != origins.get(task)
    )


def _bucket(bucket: WheelBucket) -> Bucket:
    return Bucket(Place(*bucket[:3]), tuple(task.number for task in bucket.tasks))


def _places(picture: Picture) -> dict[int, Place]:
    return {task: bucket.place for bucket in picture.queue for task in bucket.tasks}
