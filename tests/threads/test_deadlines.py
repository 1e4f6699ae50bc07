"""No callback runs before its deadline, and tasks of one tick run in the order of their adds."""

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
def test_nothing_runs_early_on_a_system_clock(make_timer, executor, eventually, clock, read_ns, tick_ms):
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


@pytest.mark.parametrize(("rate", "step_ms", "count"), [(1 / 3, 1, 60), (1000, 3000, 100)], ids=["slow", "fast"])
def test_nothing_runs_early_on_a_slow_or_fast_clock(make_timer, executor, eventually, rate, step_ms, count):
    # A timer that confused its clock with the system's would run everything at once, or nothing.
    start_ms = random.randrange(10**12)
    started = time.monotonic()

    def clock():
        return start_ms + (time.monotonic() - started) * 1000 * rate

    timer = make_timer(executor=executor, clock=clock)
    early_ms = []
    for i in range(count):
        not_before_ms = clock() + i * step_ms
        timer.call_later(i * step_ms / 1000, lambda deadline_ms=not_before_ms: early_ms.append(deadline_ms - clock()))
    eventually(lambda: len(early_ms) == count)
    assert max(early_ms) <= 0.001  # the resolution of a float near 10**12 ms


def test_call_at_uses_the_timers_clock(make_timer, executor, eventually):
    timer = make_timer(executor=executor)
    early_s = []
    for i in range(200):
        when = timer.time() + i / 1000
        timer.call_at(when, lambda when=when: early_s.append(when - timer.time()))
    timer.call_at(timer.time() - 5, early_s.append, 0.0)
    eventually(lambda: len(early_s) == 201)
    assert max(early_s) <= 1e-9
    assert abs(timer.time() - time.monotonic()) < PATIENCE_S


def test_rescheduled_task_is_not_early(make_timer, executor, eventually):
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
            # On a slow machine the task may run between two moves, which is no failure.
            assert task.reschedule(delay_ms / 1000) or task.expired
    eventually(lambda: len(early_ns) == 500)
    assert sum(early > 0 for early in early_ns) == 0


def in_order_of_ticks(tasks, tick_ms):
    """Sort tasks, given in the order of their adds, into the order in which they must run."""
    return sorted(tasks, key=lambda task: -(-task.deadline_ms // tick_ms))


def add_before_the_first_deadline(timer, offsets_s):
    """Add a task for each offset. Return the tasks, and a list that receives the number of each task when it runs.

    All tasks are added before the first deadline, with a longer lead time on a busy machine. A task that is added after
    its deadline would run after tasks that are already due.
    """
    lead_s = 0.2
    while True:
        ran = []
        first_s = timer.time() + lead_s
        tasks = [timer.call_at(first_s + offset_s, ran.append, number) for number, offset_s in enumerate(offsets_s)]
        if timer.time() < first_s:
            return tasks, ran
        for task in tasks:
            task.cancel()
        lead_s *= 4


@pytest.mark.parametrize(("tick_ms", "wheel_size"), [(1, 256), (1, 2), (20, 4), (300, 20)])
def test_tasks_of_a_tick_run_in_the_order_of_their_adds(make_timer, ordered_executor, eventually, tick_ms, wheel_size):
    dice = seeded_random(tick_ms)
    timer = make_timer(executor=ordered_executor, tick_ms=tick_ms, wheel_size=wheel_size)
    tasks, ran = add_before_the_first_deadline(timer, [dice.uniform(0, 0.55) for _ in range(3000)])
    number_of = {id(task): number for number, task in enumerate(tasks)}
    expected = [number_of[id(task)] for task in in_order_of_ticks(tasks, tick_ms)]
    eventually(lambda: len(ran) == len(tasks))
    assert ran == expected


def test_clock_jump_keeps_the_order(make_timer, ordered_executor, hand_clock, eventually):
    dice = seeded_random(1)
    timer = make_timer(executor=ordered_executor, clock=hand_clock, reaper=False, tick_ms=5, wheel_size=3)
    ran = []
    tasks = [timer.call_later(dice.uniform(0, 30), ran.append, i) for i in range(5000)]
    number_of = {id(task): number for number, task in enumerate(tasks)}
    expected = [number_of[id(task)] for task in in_order_of_ticks(tasks, 5)]
    hand_clock.ms += 100_000
    assert timer.advance_clock(0)
    eventually(lambda: len(ran) == 5000)
    assert ran == expected
