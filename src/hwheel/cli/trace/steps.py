"""The steps of a trace, in the structure that ``hwheel trace --help`` describes."""

from collections.abc import Iterator
from typing import Any

from hwheel.cli.common import CommandError
from hwheel_core import Bucket, TimerTask, TimingWheel

JSON_VERSION = 1  # a change that breaks readers raises it
Json = dict[str, Any]


class NumberedTask(TimerTask):
    """A TimerTask with a number, which identifies the task in snapshots."""

    def __init__(self, delay_ms: int, number: int) -> None:
        super().__init__(delay_ms)
        self.number = number


def trace(tick_ms: int, wheel_size: int, start_ms: int, delays_ms: list[int]) -> Json:
    """Add a task for each delay at ``start_ms``, then poll at each expiration of the delay queue until it is empty.

    Raises:
        CommandError: A time does not fit into 64 bits.
    """
    tasks = [
        {"task": number, "delay_ms": delay_ms, "expiration_ms": start_ms + delay_ms}
        for number, delay_ms in enumerate(delays_ms, 1)
    ]
    try:
        steps = [*steps_of(TimingWheel(tick_ms, wheel_size, start_ms), start_ms, tasks)]
    except (ValueError, OverflowError) as error:
        raise CommandError(str(error)) from None
    settings = {"version": JSON_VERSION, "tick_ms": tick_ms, "wheel_size": wheel_size, "start_ms": start_ms}
    return {**settings, "tasks": tasks, "steps": steps}


def steps_of(wheel: TimingWheel, start_ms: int, tasks: list[Json]) -> Iterator[Json]:
    """Yield the start, each add, and each poll."""
    places: dict[int, Json] = {}  # of the pending tasks, by number

    def step(kind: str, time_ms: int, added: int | None, due: list[int]) -> Json:
        nonlocal places
        found, before = wheel.snapshot(), places
        queue = [bucket_of(bucket) for bucket in found.queue]
        places = {task: place_of(bucket) for bucket in found.queue for task in numbers_of(bucket.tasks)}
        moved = [
            {"task": task, "from": before.get(task), "to": place}
            for task, place in sorted(places.items())
            if place != before.get(task)
        ]
        levels = [
            {
                "level": number,
                "tick_ms": level.tick_ms,
                "interval_ms": level.interval_ms,
                "current_time_ms": level.current_time_ms,
                "buckets": [bucket_of(bucket) for bucket in level.buckets],
            }
            for number, level in enumerate(found.levels, 1)
        ]
        about = {"step": kind, "time_ms": time_ms, "task": added, "due": due, "moved": moved}
        return {**about, "levels": levels, "queue": queue}

    yield step("start", start_ms, None, [])
    for task in tasks:
        is_pending = wheel.add(NumberedTask(task["delay_ms"], task["task"]), task["expiration_ms"])
        yield step("add", start_ms, task["task"], [] if is_pending else [task["task"]])
    while (now_ms := wheel.next_expiration_ms) is not None:
        yield step("poll", now_ms, None, numbers_of(wheel.poll(now_ms)))


def numbers_of(tasks: Any) -> list[int]:
    return [task.number for task in tasks]


def place_of(bucket: Bucket) -> Json:
    return {"level": bucket.level, "bucket": bucket.index, "expiration_ms": bucket.expiration_ms}


def bucket_of(bucket: Bucket) -> Json:
    return {**place_of(bucket), "tasks": numbers_of(bucket.tasks)}
