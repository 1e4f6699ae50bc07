"""Never early: no callback runs before its deadline, by the timer's own clock."""

import random
import time

import pytest

from sampling import seeded_random
from systems import skip_unless_clock

DELAYS = 1500
PATIENCE_S = 60


@pytest.mark.parametrize("tick_ms", [1, 7, 50])
@pytest.mark.parametrize(
    ("clock", "read_ns"),
    [
        ("monotonic", time.monotonic_ns),
        ("boottime", lambda: time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))),
    ],
)
def test_nothing_runs_early_on_a_clock_of_the_system(make_timer, executor, eventually, clock, read_ns, tick_ms):
    skip_unless_clock(clock)
    dice = seeded_random(tick_ms)
    timer = make_timer(executor=executor, clock=clock, tick_ms=tick_ms)
    early_ns = []
    for _ in range(DELAYS):
        delay_s = dice.uniform(0, 0.3)
        not_before_ns = read_ns() + round(delay_s * 1e9)
        timer.call_later(delay_s, lambda not_before_ns=not_before_ns: early_ns.append(not_before_ns - read_ns()))
    eventually(lambda: len(early_ns) == DELAYS)
    assert max(early_ns) <= 0


def test_nothing_runs_early_on_a_clock_that_is_slower_than_the_systems(make_timer, executor, eventually):
    # It also starts somewhere else: a timer that mixed the clocks up would run everything at once, or nothing.
    start_ms = random.randrange(10**12)
    started = time.monotonic()

    def clock():
        return start_ms + (time.monotonic() - started) * 1000 / 3

    timer = make_timer(executor=executor, clock=clock)
    early_ms = []
    for i in range(60):
        not_before_ms = clock() + i
        timer.call_later(i / 1000, lambda not_before_ms=not_before_ms: early_ms.append(not_before_ms - clock()))
    eventually(lambda: len(early_ms) == 60)
    assert max(early_ms) <= 0.001  # floats of 10**12 ms are that coarse


def test_a_fast_clock_runs_everything_by_its_own_time(make_timer, executor, eventually):
    started = time.monotonic()

    def clock():
        return (time.monotonic() - started) * 1_000_000

    timer = make_timer(executor=executor, clock=clock)
    early_ms = []
    for i in range(100):
        not_before_ms = clock() + i * 3_000
        timer.call_later(i * 3, lambda not_before_ms=not_before_ms: early_ms.append(not_before_ms - clock()))
    eventually(lambda: len(early_ms) == 100)
    assert max(early_ms) <= 0.001


def test_call_at_takes_the_time_of_the_timers_clock(make_timer, executor, eventually):
    timer = make_timer(executor=executor)
    early_s = []
    for i in range(200):
        when = timer.time() + i / 1000
        timer.call_at(when, lambda when=when: early_s.append(when - timer.time()))
    timer.call_at(timer.time() - 5, early_s.append, 0.0)
    eventually(lambda: len(early_s) == 201)
    assert max(early_s) <= 1e-9
    assert abs(timer.time() - time.monotonic()) < PATIENCE_S


def test_deadlines_are_rounded_up_to_the_next_tick(make_timer, hand_clock):
    ran = []
    timer = make_timer(executor="inline", clock=hand_clock, reaper=False, tick_ms=50)
    timer.call_later(0.075, ran.append, 75)
    timer.call_later(0.1, ran.append, 100)
    hand_clock.ms += 99
    assert timer.advance_clock(0) is False
    hand_clock.ms += 1
    assert timer.advance_clock(0) is True
    assert ran == [75, 100]


def test_without_never_early_deadlines_are_rounded_down_as_kafka_does(make_timer, hand_clock):
    ran = []
    timer = make_timer(executor="inline", clock=hand_clock, reaper=False, tick_ms=50, never_early=False)
    timer.call_later(0.075, ran.append, 75)
    timer.call_later(0.1, ran.append, 100)
    timer.call_later(0.049, ran.append, 49)
    assert timer.advance_clock(0) is True  # within the current tick: due at once
    assert ran == [49]
    hand_clock.ms += 49
    assert timer.advance_clock(0) is False
    hand_clock.ms += 1
    assert timer.advance_clock(0) is True
    assert ran == [49, 75]
    hand_clock.ms += 50
    assert timer.advance_clock(0) is True
    assert ran == [49, 75, 100]


def test_a_reschedule_does_not_make_anything_early(make_timer, executor, eventually):
    dice = seeded_random(4)
    timer = make_timer(executor=executor)
    early_ns = []
    not_before = {}

    def note(number):
        early_ns.append(not_before[number] - time.monotonic_ns())

    for number in range(500):
        not_before[number] = 0
        task = timer.call_later(60, note, number)
        for _ in range(3):
            delay_ms = dice.randrange(30, 200)
            not_before[number] = time.monotonic_ns() + delay_ms * 1_000_000
            # A machine so slow that the task ran between two moves would make this test void, not wrong.
            assert task.reschedule(delay_ms / 1000) or task.expired
    eventually(lambda: len(early_ns) == 500)
    assert sum(early > 0 for early in early_ns) == 0
