"""Proof that a wheel keeps the order and is never early, over every state of a small wheel.

The wheel has a few levels of a few buckets, a tick of 1, and a maximum number of tasks. Between any two steps a task of
any time within the levels can be added, or a task can be canceled. An advance proceeds by one entry or one bucket per
step, as if the lock were released after each. Times are taken modulo the span of all levels, and the model only knows
which of two tasks of one tick was added first. So the number of states is finite, and an invariant of all of them
always holds.

Invariants of every dispatch of a tick:
    order: tasks of one time run in the order in which they were added;
    never early, never late: the tasks are those of this tick, and those that were late when they were added; no task of
    this tick or of an earlier one stays in a bucket;
    and no clock passes a bucket that is not empty.
"""

from collections.abc import Iterator
from typing import NamedTuple

Entry = tuple[int, int]  # its time, and the number of pending tasks with that time that were added earlier


class Wheel(NamedTuple):
    """One state. During an advance `flush` has the entries still to be placed, and `due` those of the current tick."""

    time: int  # of the finest level; the others have this time rounded down to their tick
    levels: int
    buckets: tuple[tuple[int, int, tuple[Entry, ...]], ...]  # (expiration, level, entries), sorted
    flush: tuple[Entry, ...]
    due: tuple[Entry, ...]


class Rules(NamedTuple):
    """The bounds, and switches for wrong variants, which the search must find."""

    size: int = 3
    levels: int = 3
    tasks: int = 3
    finer_first: bool = True  # of two buckets that expire at one time
    backwards: bool = True  # a cascade walks its bucket backward and pushes to the front

    def tick(self, level: int) -> int:
        return int(self.size ** (level - 1))


START = Wheel(0, 1, (), (), ())


def steps_from(wheel: Wheel, rules: Rules) -> Iterator[tuple[str, Wheel]]:
    """Yield every step that can happen next, with the clock in the first round of the coarsest level."""
    for step, after in anything(wheel, rules):
        yield step, normal(after, rules)


def anything(wheel: Wheel, rules: Rules) -> Iterator[tuple[str, Wheel]]:
    if count(wheel) < rules.tasks:
        for ahead in range(rules.tick(rules.levels + 1)):
            after = add(wheel, wheel.time + ahead, rules)
            if after is not None:
                yield f"add a task {ahead} ahead", after
    for entry in [*wheel.flush, *wheel.due, *(entry for bucket in wheel.buckets for entry in bucket[2])]:
        yield f"cancel number {entry[1]} of time {entry[0]}", cancel(wheel, entry)
    yield from advance(wheel, rules)


def count(wheel: Wheel) -> int:
    return len(wheel.flush) + len(wheel.due) + sum(len(bucket[2]) for bucket in wheel.buckets)


def level_of(wheel: Wheel, time: int, rules: Rules) -> int | None:
    """Return the level of a time; 0 if it has passed, None if the level does not exist yet."""
    if time < wheel.time + 1:
        return 0
    for level in range(1, wheel.levels + 1):
        tick = rules.tick(level)
        if time < wheel.time // tick * tick + tick * rules.size:
            return level
    return None


def add(wheel: Wheel, time: int, rules: Rules) -> Wheel | None:
    """Return the wheel with one more task; None if the time is beyond all levels."""
    level = level_of(wheel, time, rules)
    while level is None:
        if wheel.levels == rules.levels:
            return None
        wheel = wheel._replace(levels=wheel.levels + 1)
        level = level_of(wheel, time, rules)
    before = [entry for entry in [*wheel.flush, *wheel.due] if entry[0] == time]
    before += [entry for bucket in wheel.buckets for entry in bucket[2] if entry[0] == time]
    entry = (time, len(before))
    if level == 0:
        # Behind the entries that are due. Without an advance it is dispatched at once.
        return wheel._replace(due=(*wheel.due, entry)) if is_advancing(wheel) else wheel
    return placed(wheel, entry, level, rules, at_front=False)


def is_advancing(wheel: Wheel) -> bool:
    """Return True if entries of the present tick are left."""
    return bool(wheel.flush or wheel.due or any(bucket[0] <= wheel.time for bucket in wheel.buckets))


def placed(wheel: Wheel, entry: Entry, level: int, rules: Rules, *, at_front: bool) -> Wheel:
    tick = rules.tick(level)
    falls_due = entry[0] // tick * tick
    buckets = {(when, which): held for when, which, held in wheel.buckets}
    held = buckets.get((falls_due, level), ())
    buckets[falls_due, level] = (entry, *held) if at_front else (*held, entry)
    return wheel._replace(buckets=tuple(sorted((*key, entries) for key, entries in buckets.items())))


def cancel(wheel: Wheel, gone: Entry) -> Wheel:
    """Remove an entry and renumber the later ones of its time."""

    def without(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        left = [entry for entry in entries if entry != gone]
        return tuple((time, number - (time == gone[0] and number > gone[1])) for time, number in left)

    buckets = tuple((when, level, without(held)) for when, level, held in wheel.buckets)
    return wheel._replace(
        flush=without(wheel.flush), due=without(wheel.due), buckets=tuple(bucket for bucket in buckets if bucket[2])
    )


def advance(wheel: Wheel, rules: Rules) -> Iterator[tuple[str, Wheel]]:
    """Yield one step of an advance: place an entry, dispatch a tick, or take a bucket.

    If no advance is in progress, the clock can also be set to any time before the next bucket.
    """
    if wheel.flush:
        entry = wheel.flush[-1] if rules.backwards else wheel.flush[0]
        rest = wheel._replace(flush=wheel.flush[:-1] if rules.backwards else wheel.flush[1:])
        level = level_of(rest, entry[0], rules)
        assert level is not None, "a cascade needs a level that does not exist"
        if level == 0:
            yield "an entry of the cascade is due", rest._replace(due=(entry, *rest.due))
        else:
            yield f"an entry moves to level {level}", placed(rest, entry, level, rules, at_front=True)
        return
    order = sorted(wheel.buckets, key=lambda bucket: (bucket[0], bucket[1] if rules.finer_first else -bucket[1]))
    first = order[0] if order else None
    if wheel.due and (first is None or first[0] > wheel.time):
        check_tick(wheel)
        yield f"the tick {wheel.time} is dispatched", wheel._replace(due=())
        return
    if first is None:
        return
    when, level, held = first
    assert when >= wheel.time, "the clock has passed a bucket"
    taken = wheel._replace(time=when, buckets=tuple(bucket for bucket in wheel.buckets if bucket != first))
    if level == 1:
        taken = taken._replace(due=(*held, *taken.due))
    else:
        taken = taken._replace(flush=held)
    yield f"the bucket of level {level} at {when} is taken", taken
    if not is_advancing(wheel):
        for time in range(wheel.time + 1, when):
            yield f"the clock is set to {time}", wheel._replace(time=time)


def check_tick(wheel: Wheel) -> None:
    for time in {time for time, _ in wheel.due}:
        numbers = [number for at, number in wheel.due if at == time]
        assert numbers == sorted(numbers), f"out of order in one tick: {numbers}"
        assert time <= wheel.time, f"{wheel.time - time} early"
    late = [entry for bucket in wheel.buckets for entry in bucket[2] if entry[0] <= wheel.time]
    assert not late, f"left behind: {late}"


def normal(wheel: Wheel, rules: Rules) -> Wheel:
    """Return the same state some whole rounds earlier."""
    span = rules.tick(rules.levels + 1)
    shift = wheel.time // span * span
    if shift == 0:
        return wheel

    def moved(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        return tuple((time - shift, number) for time, number in entries)

    return Wheel(
        wheel.time - shift,
        wheel.levels,
        tuple((when - shift, level, moved(held)) for when, level, held in wheel.buckets),
        moved(wheel.flush),
        moved(wheel.due),
    )
