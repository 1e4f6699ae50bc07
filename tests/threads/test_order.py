"""In order: tasks of one tick run in the order in which they were added, on a real clock too."""

from array import array

import pytest

from sampling import seeded_random


def in_order_of_ticks(tasks, tick_ms):
    """The tasks, given in the order of their adds, in the order in which they have to run."""
    return sorted(tasks, key=lambda task: -(-task.deadline_ms // tick_ms))


def added_before_the_first_is_due(timer, offsets_s):
    """(tasks for times that are so far apart, a list for the number of each when it runs). All are added before the
    first falls due: one whose time is over when it comes into the wheel runs behind what has fallen due meanwhile, and
    a busy machine may hold any add up for so long."""
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
    tasks, ran = added_before_the_first_is_due(timer, [dice.uniform(0, 0.55) for _ in range(3000)])
    number_of = {id(task): number for number, task in enumerate(tasks)}
    expected = [number_of[id(task)] for task in in_order_of_ticks(tasks, tick_ms)]
    eventually(lambda: len(ran) == len(tasks))
    assert ran == expected


def test_a_rescheduled_task_goes_to_the_end_of_its_new_tick(make_timer, ordered_executor, hand_clock, eventually):
    timer = make_timer(executor=ordered_executor, clock=hand_clock, reaper=False)
    ran = []
    tasks = [timer.call_later(0.05, ran.append, name) for name in "abcd"]
    assert tasks[1].reschedule(0.05)
    hand_clock.ms += 50
    assert timer.advance_clock(0)
    eventually(lambda: len(ran) == 4)
    assert ran == ["a", "c", "d", "b"]


def test_what_is_due_at_once_runs_in_order_behind_what_is_due_already(
    make_timer, ordered_executor, hand_clock, eventually
):
    timer = make_timer(executor=ordered_executor, clock=hand_clock, reaper=False)
    ran = []
    for i in range(5):
        timer.call_later(0.05, ran.append, i)
    hand_clock.ms += 50
    timer.advance_clock(0)
    for i in range(5, 10):
        timer.call_later((4 - i) / 1000, ran.append, i)
    timer.advance_clock(0)
    eventually(lambda: len(ran) == 10)
    assert ran == list(range(10))


def test_a_jump_of_the_clock_keeps_the_order(make_timer, ordered_executor, hand_clock, eventually):
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


def test_the_indices_of_a_batch_come_in_order(make_timer, ordered_executor, eventually):
    dice = seeded_random(2)
    timer = make_timer(executor=ordered_executor, wheel_size=4)
    offsets_ms = [dice.randrange(300) for _ in range(20_000)]
    lead_ms = 200  # as above: all of it is added before the first is due
    while True:
        seen, begin_s = [], timer.time()
        batch = timer.call_many(array("q", [lead_ms + offset_ms for offset_ms in offsets_ms]), seen.extend)
        if timer.time() < begin_s + lead_ms / 1000:
            break
        batch.cancel()
        lead_ms *= 4
    eventually(lambda: len(seen) == len(offsets_ms))
    assert seen == sorted(range(len(offsets_ms)), key=offsets_ms.__getitem__)
