"""That no wake-up is lost, in every state of a small timer with two threads that sleep.

Two threads wait for the next bucket, as a reaper and a caller of advance_clock() do; one that executes waits for what
is ready; others add, cancel and stop the timer. Each part under the lock is one step, because nobody sees its middle;
time goes on between any two steps. Only which times have a bucket matters, and no more than a few of them.

In every state:
    somebody wakes: while a bucket is queued, one of the two is up, or will be by its time, or a wake-up is on its way;
    a stop is heard: after it nobody sleeps without a wake-up on its way, nor waits for work;
    what is ready is heard of: the executor does not wait while something is;
    a wake-up is for all: whoever slept when it came sees it;
    and the last to be back takes it away.
"""

from collections.abc import Iterator
from typing import NamedTuple

AT_WORK = -1  # a sleeper that is up, and about to look
GONE = -2
FOR_EVER = 99
NONE = -1  # INT64_MIN in the core: nobody has to be woken


class Rules(NamedTuple):
    """What is proved, and wrong variants, for which the search has to find why."""

    last: int = 4  # the latest time
    latest_counts: bool = True  # of two that sleep the one that sleeps longer decides whether an add wakes them
    last_takes_away: bool = True  # a wake-up stays until the last one is back


class Timer(NamedTuple):
    """A state."""

    now: int = 0
    buckets: frozenset[int] = frozenset()
    sleepers: tuple[int, int] = (AT_WORK, AT_WORK)  # the times until which they sleep
    until: int = NONE  # Timer.reaper_until_ms
    woken: bool = False  # the waker is set
    missed: frozenset[int] = frozenset()  # who slept when the waker was set, and has not been back since
    ready: bool = False
    executor_waits: bool = False
    signalled: bool = False  # the condition of the executor
    stopping: bool = False


def steps_from(timer: Timer, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """Everything that may happen next."""
    check(timer)
    if timer.now < rules.last:
        yield f"it is {timer.now + 1}", timer._replace(now=timer.now + 1)
    for time in range(timer.now + 1, rules.last + 1):
        if time not in timer.buckets and not timer.stopping:
            added = timer._replace(buckets=timer.buckets | {time})
            yield f"an add for {time}", wake(added) if time < timer.until else added
    for time in timer.buckets:
        yield f"the bucket of {time} is emptied and gone", timer._replace(buckets=timer.buckets - {time})
    if not timer.stopping:
        yield "it is stopped", wake(timer._replace(stopping=True, signalled=True))
    for number, sleeps in enumerate(timer.sleepers):
        if sleeps == AT_WORK:
            yield f"sleeper {number} looks", look(timer, number)
        elif sleeps != GONE and (timer.woken or sleeps <= timer.now):
            yield f"sleeper {number} gets up", get_up(timer, number, rules)
        # A wait may end for no reason: a signal came.
        elif sleeps != GONE:
            yield f"sleeper {number} is disturbed", get_up(timer, number, rules)
    yield from execute(timer)


def check(timer: Timer) -> None:
    asleep = [sleeps for sleeps in timer.sleepers if sleeps >= 0]
    all_asleep = len(asleep) == 2 and not timer.woken
    if all_asleep and timer.buckets:
        assert min(asleep) <= min(timer.buckets), f"nobody wakes for {min(timer.buckets)}: they sleep until {asleep}"
    if timer.stopping:
        assert not asleep or timer.woken, "a stop is not heard by who sleeps"
        assert not timer.executor_waits or timer.signalled, "a stop is not heard by the executor"
    if timer.ready:
        assert not timer.executor_waits or timer.signalled, "the executor waits although something is ready"
    assert not timer.missed or timer.woken, f"these slept through a wake-up: {set(timer.missed)}"
    assert asleep or not timer.woken, "a wake-up is left with nobody asleep"


def wake(timer: Timer) -> Timer:
    """timer_wake_reaper_locked."""
    if timer.until == NONE:
        return timer
    asleep = frozenset(number for number, sleeps in enumerate(timer.sleepers) if sleeps >= 0)
    return timer._replace(until=NONE, woken=True, missed=asleep)


def look(timer: Timer, number: int) -> Timer:
    """A turn of timer_reap_locked: takes what is due, or lies down."""
    if timer.stopping:
        return timer._replace(sleepers=changed(timer.sleepers, number, GONE))
    due = frozenset(time for time in timer.buckets if time <= timer.now)
    if due:
        return timer._replace(buckets=timer.buckets - due, ready=True, signalled=True)
    until = min(timer.buckets, default=FOR_EVER)
    return timer._replace(sleepers=changed(timer.sleepers, number, until), until=max(timer.until, until))


def get_up(timer: Timer, number: int, rules: Rules) -> Timer:
    """timer_end_sleep_locked."""
    timer = timer._replace(sleepers=changed(timer.sleepers, number, AT_WORK), missed=timer.missed - {number})
    others = [sleeps for sleeps in timer.sleepers if sleeps >= 0]
    if not others:
        return timer._replace(until=NONE, woken=False)
    if not rules.last_takes_away:
        timer = timer._replace(woken=False)
    if not rules.latest_counts:
        timer = timer._replace(until=NONE)
    return timer


def execute(timer: Timer) -> Iterator[tuple[str, Timer]]:
    """The executor's thread: timer_await_work, and a hand-out."""
    if timer.executor_waits:
        if timer.signalled:
            yield "the executor wakes up", timer._replace(executor_waits=False, signalled=False)
    elif timer.ready:
        yield "the executor takes what is ready", timer._replace(ready=False)
    elif not timer.stopping:
        yield "the executor waits", timer._replace(executor_waits=True, signalled=False)


def changed(sleepers: tuple[int, int], number: int, sleeps: int) -> tuple[int, int]:
    return (sleeps, sleepers[1]) if number == 0 else (sleepers[0], sleeps)
