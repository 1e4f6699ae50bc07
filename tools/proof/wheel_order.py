"""The order of the wheel, and that it is never early, in every state of a small one.

A wheel of a few levels of a few buckets, with a tick of 1, and at most so many tasks at once. Whoever comes adds a task
of any time that the levels reach, or cancels one; meanwhile an advance goes on, one entry or one bucket at a time, as
if the lock were given up after each. Times are taken modulo the span of all levels, and of the order of the adds only
what matters is kept, which of two tasks of one tick was first: so the states are finite, and what holds in all of them
holds for ever.

In each hand-out of a tick:
    order: tasks of one time come in the order in which they were added;
    never early, never late: what comes is of this tick, or was due when it was added; nothing of this tick or of an
    earlier one stays behind in a bucket;
    and no clock passes over a bucket that holds something.
"""

from collections.abc import Iterator
from typing import NamedTuple

Entry = tuple[int, int]  # its time, and how many of that time were added before it and are still there


class Wheel(NamedTuple):
    """A state. Within an advance `flush` is what is still to be placed, and `due` what is of the tick of the clock."""

    time: int  # the finest level's clock; each coarser one's is this, rounded down to its tick
    levels: int
    buckets: tuple[tuple[int, int, tuple[Entry, ...]], ...]  # (when it falls due, its level, what it holds), sorted
    flush: tuple[Entry, ...]
    due: tuple[Entry, ...]


class Rules(NamedTuple):
    """What is proved, and wrong variants, for which the search has to find why."""

    size: int = 3
    levels: int = 3
    tasks: int = 3
    finer_first: bool = True  # of two buckets of one time
    backwards: bool = True  # a cascade walks its bucket from the end, and pushes to the front

    def tick(self, level: int) -> int:
        return int(self.size ** (level - 1))


START = Wheel(0, 1, (), (), ())


def steps_from(wheel: Wheel, rules: Rules) -> Iterator[tuple[str, Wheel]]:
    """Everything that may happen next, with the clock in the first round of the coarsest level that there may be."""
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
    """Where a time belongs; 0: it is due; None: to a level that is not there."""
    if time < wheel.time + 1:
        return 0
    for level in range(1, wheel.levels + 1):
        tick = rules.tick(level)
        if time < wheel.time // tick * tick + tick * rules.size:
            return level
    return None


def add(wheel: Wheel, time: int, rules: Rules) -> Wheel | None:
    """None: beyond the levels that there may be."""
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
        # Behind what is due; where nothing is, it is handed out at once.
        return wheel._replace(due=(*wheel.due, entry)) if is_advancing(wheel) else wheel
    return placed(wheel, entry, level, rules, at_front=False)


def is_advancing(wheel: Wheel) -> bool:
    """Something is left of the tick that is being handed out."""
    return bool(wheel.flush or wheel.due or any(bucket[0] <= wheel.time for bucket in wheel.buckets))


def placed(wheel: Wheel, entry: Entry, level: int, rules: Rules, *, at_front: bool) -> Wheel:
    tick = rules.tick(level)
    falls_due = entry[0] // tick * tick
    buckets = {(when, which): held for when, which, held in wheel.buckets}
    held = buckets.get((falls_due, level), ())
    buckets[falls_due, level] = (entry, *held) if at_front else (*held, entry)
    return wheel._replace(buckets=tuple(sorted((*key, entries) for key, entries in buckets.items())))


def cancel(wheel: Wheel, gone: Entry) -> Wheel:
    """Takes one out; those of its time that were added later move up."""

    def without(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        left = [entry for entry in entries if entry != gone]
        return tuple((time, number - (time == gone[0] and number > gone[1])) for time, number in left)

    buckets = tuple((when, level, without(held)) for when, level, held in wheel.buckets)
    return wheel._replace(
        flush=without(wheel.flush), due=without(wheel.due), buckets=tuple(bucket for bucket in buckets if bucket[2])
    )


def advance(wheel: Wheel, rules: Rules) -> Iterator[tuple[str, Wheel]]:
    """One step of it: an entry is placed, a tick is handed out, or a bucket is taken. And where none is under way the
    clock may be set to any time before the next bucket."""
    if wheel.flush:
        entry = wheel.flush[-1] if rules.backwards else wheel.flush[0]
        rest = wheel._replace(flush=wheel.flush[:-1] if rules.backwards else wheel.flush[1:])
        level = level_of(rest, entry[0], rules)
        assert level is not None, "a cascade wants a level that is not there"
        if level == 0:
            yield "an entry of the cascade is due", rest._replace(due=(entry, *rest.due))
        else:
            yield f"an entry goes to level {level}", placed(rest, entry, level, rules, at_front=True)
        return
    order = sorted(wheel.buckets, key=lambda bucket: (bucket[0], bucket[1] if rules.finer_first else -bucket[1]))
    first = order[0] if order else None
    if wheel.due and (first is None or first[0] > wheel.time):
        check_tick(wheel)
        yield f"the tick {wheel.time} is handed out", wheel._replace(due=())
        return
    if first is None:
        return
    when, level, held = first
    assert when >= wheel.time, "the clock has passed over a bucket"
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
        assert numbers == sorted(numbers), f"of one tick these came out of order: {numbers}"
        assert time <= wheel.time, f"{wheel.time - time} early"
    late = [entry for bucket in wheel.buckets for entry in bucket[2] if entry[0] <= wheel.time]
    assert not late, f"left behind: {late}"


def normal(wheel: Wheel, rules: Rules) -> Wheel:
    """The same state, some whole rounds earlier."""
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
