"""A trace for programs. The structure is stable: it only grows, and `version` counts what breaks it.

    {"version": 1, "tick_ms": int, "wheel_size": int, "start_ms": int,
     "tasks": [{"task": number from 1, "delay_ms": int, "expiration_ms": int}, ...],
     "steps": [{"step": "start" | "add" | "poll",
                "time_ms": when; every add is at start_ms,
                "task": which one was added, else null,
                "due": [tasks that this step found due, in order],
                "moved": [{"task": number, "from": place | null, "to": place}, ...],
                "levels": [{"level": number from 1, "tick_ms", "interval_ms", "current_time_ms": int,
                            "buckets": [non-empty ones: place + {"tasks": [in order]}]}, ...],
                "queue": [the same buckets, in the order in which they fall due]}, ...]}

where place = {"level": int, "bucket": int, "expiration_ms": int}. All times are in milliseconds.
"""

from typing import Any

from hwheel.cli.trace.steps import Bucket, Place, Step, Trace

VERSION = 1


def trace_as_json(trace: Trace) -> dict[str, Any]:
    """The structure above, for json.dump."""
    return {
        "version": VERSION,
        "tick_ms": trace.tick_ms,
        "wheel_size": trace.wheel_size,
        "start_ms": trace.start_ms,
        "tasks": [
            {"task": task.number, "delay_ms": task.delay_ms, "expiration_ms": task.expiration_ms}
            for task in trace.tasks
        ],
        "steps": [_step(step) for step in trace.steps],
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "step": step.kind,
        "time_ms": step.time_ms,
        "task": step.task,
        "due": list(step.due),
        "moved": [
            {"task": move.task, "from": None if move.origin is None else _place(move.origin), "to": _place(move.target)}
            for move in step.moved
        ],
        "levels": [
            {
                "level": level.level,
                "tick_ms": level.tick_ms,
                "interval_ms": level.interval_ms,
                "current_time_ms": level.current_time_ms,
                "buckets": [_bucket(bucket) for bucket in level.buckets],
            }
            for level in step.picture.levels
        ],
        "queue": [_bucket(bucket) for bucket in step.picture.queue],
    }


def _place(place: Place) -> dict[str, Any]:
    return {"level": place.level, "bucket": place.bucket, "expiration_ms": place.expiration_ms}


def _bucket(bucket: Bucket) -> dict[str, Any]:
    return {**_place(bucket.place), "tasks": list(bucket.tasks)}
