"""Proof that no wake-up is lost, over every state of a small timer with two sleeping threads.

Two threads sleep until the next bucket, as a reaper and a caller of advance_clock() do. An executor waits for expired
tasks. Other threads add, cancel, and stop the timer. Everything that happens under the lock is one step, because no
other thread sees a state inside it. The time can change between any two steps. The model knows buckets by their times
only.

Invariants of every state:
    wake-up: while a bucket is queued, one sleeper is awake, or sleeps no longer than until its time, or is being woken;
    stop: after a stop no thread sleeps or waits for work unless it is being woken;
    expired tasks: the executor does not wait while there are expired tasks;
    broadcast: every thread that slept when the waker was set sees that it is set;
    and the last of these threads clears the waker.
"""

from collections.abc import Iterator
from typing import NamedTuple

AT_WORK = -1  # a sleeper that is awake, and about to check the queue
GONE = -2
FOREVER = 99
NONE = -1  # INT64_MIN in the core: no thread sleeps


class Rules(NamedTuple):
    """The bounds, and switches for wrong variants, which the search must find."""

    last: int = 4  # the latest time
    latest_counts: bool = True  # an add compares with the longer of two sleeps
    last_clears: bool = True  # the waker stays set until the last sleeper is back


class Timer(NamedTuple):
    """One state."""

    now: int = 0
    buckets: frozenset[int] = frozenset()
    sleepers: tuple[int, int] = (AT_WORK, AT_WORK)  # the times until which they sleep
    until: int = NONE  # Timer.reaper_until_ms
    woken: bool = False  # the waker is set
    missed: frozenset[int] = frozenset()  # sleepers that have not seen the waker since it was set
    ready: bool = False
    executor_waits: bool = False
    signalled: bool = False  # the condition of the executor
    stopping: bool = False


def steps_from(timer: Timer, rules: Rules) -> Iterator[tuple[str, Timer]]:
    """Yield every step that can happen next."""
    check(timer)
    if timer.now < rules.last:
        yield f"the time is {timer.now + 1}", timer._replace(now=timer.now + 1)
    for time in range(timer.now + 1, rules.last + 1):
        if time not in timer.buckets and not timer.stopping:
            added = timer._replace(buckets=timer.buckets | {time})
            yield f"an add for {time}", wake(added) if time < timer.until else added
    for time in timer.buckets:
        yield f"the bucket of {time} is emptied", timer._replace(buckets=timer.buckets - {time})
    if not timer.stopping:
        yield "the timer is stopped", wake(timer._replace(stopping=True, signalled=True))
    for number, sleeps in enumerate(timer.sleepers):
        if sleeps == AT_WORK:
            yield f"sleeper {number} checks the queue", check_queue(timer, number)
        elif sleeps != GONE and (timer.woken or sleeps <= timer.now):
            yield f"sleeper {number} wakes up", end_sleep(timer, number, rules)
        # A signal can end a wait.
        elif sleeps != GONE:
            yield f"sleeper {number} is interrupted", end_sleep(timer, number, rules)
    yield from execute(timer)


def check(timer: Timer) -> None:
    asleep = [sleeps for sleeps in timer.sleepers if sleeps >= 0]
    all_asleep = len(asleep) == 2 and not timer.woken
    if all_asleep and timer.buckets:
        assert min(asleep) <= min(timer.buckets), f"no thread wakes for {min(timer.buckets)}: they sleep until {asleep}"
    if timer.stopping:
        assert not asleep or timer.woken, "a sleeper misses the stop"
        assert not timer.executor_waits or timer.signalled, "the executor misses the stop"
    if timer.ready:
        assert not timer.executor_waits or timer.signalled, "the executor waits while tasks have expired"
    assert not timer.missed or timer.woken, f"these sleepers missed a wake-up: {set(timer.missed)}"
    assert asleep or not timer.woken, "the waker is set although no thread sleeps"


def wake(timer: Timer) -> Timer:
    """timer_wake_reaper_locked."""
    if timer.until == NONE:
        return timer
    asleep = frozenset(number for number, sleeps in enumerate(timer.sleepers) if sleeps >= 0)
    return timer._replace(until=NONE, woken=True, missed=asleep)


def check_queue(timer: Timer, number: int) -> Timer:
    """A turn of timer_reap_locked: take the expired buckets, or sleep."""
    if timer.stopping:
        return timer._replace(sleepers=changed(timer.sleepers, number, GONE))
    due = frozenset(time for time in timer.buckets if time <= timer.now)
    if due:
        return timer._replace(buckets=timer.buckets - due, ready=True, signalled=True)
    until = min(timer.buckets, default=FOREVER)
    return timer._replace(sleepers=changed(timer.sleepers, number, until), until=max(timer.until, until))


def end_sleep(timer: Timer, number: int, rules: Rules) -> Timer:
    """timer_end_sleep_locked."""
    timer = timer._replace(sleepers=changed(timer.sleepers, number, AT_WORK), missed=timer.missed - {number})
    others = [sleeps for sleeps in timer.sleepers if sleeps >= 0]
    if not others:
        return timer._replace(until=NONE, woken=False)
    if not rules.last_clears:
        timer = timer._replace(woken=False)
    if not rules.latest_counts:
        timer = timer._replace(until=NONE)
    return timer


def execute(timer: Timer) -> Iterator[tuple[str, Timer]]:
    """The executor: timer_await_work, and a dispatch."""
    if timer.executor_waits:
        if timer.signalled:
            yield "the executor wakes up", timer._replace(executor_waits=False, signalled=False)
    elif timer.ready:
        yield "the executor takes the expired tasks", timer._replace(ready=False)
    elif not timer.stopping:
        yield "the executor waits", timer._replace(executor_waits=True, signalled=False)


def changed(sleepers: tuple[int, int], number: int, sleeps: int) -> tuple[int, int]:
    return (sleeps, sleepers[1]) if number == 0 else (sleepers[0], sleeps)
