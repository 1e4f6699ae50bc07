"""A callable clock that goes back (as time.time by NTP): the timer stands still until the clock has caught up."""

from array import array

import pytest

from hwheel import DelayQueue, ExpiringDict
from sampling import seeded_random
from waiting import eventually


@pytest.fixture
def make(make_timer, hand_clock):
    """Return a factory of timers on hand_clock whose callbacks run in advance_clock()."""
    return lambda **options: make_timer(executor="inline", clock=hand_clock, reaper=False, **options)


def call_later(timer, ran):
    timer.call_later(1, ran.append, 1)


def call_at(timer, ran):
    timer.call_at(timer.time() + 1, ran.append, 1)


def call_every(timer, ran):
    timer.call_every(1, ran.append, 1)


def call_many(timer, ran):
    timer.call_many(array("q", [1000]), ran.extend)


def reschedule(timer, ran):
    assert timer.call_later(3600, ran.append, 1).reschedule(1)


def set_in_dict(timer, ran):
    ran.dict = ExpiringDict(1, timer=timer, on_expire=ran.extend)
    ran.dict["a"] = 1


class Runs(list):
    pass


@pytest.mark.parametrize("add", [call_later, call_at, call_every, call_many, reschedule, set_in_dict])
@pytest.mark.parametrize("back_ms", [1, 2000, 500_000])
def test_the_time_of_the_timer_stops_until_the_clock_has_caught_up(make, hand_clock, add, back_ms):
    timer, ran = make(), Runs()
    timer.call_later(100, int)
    hand_clock.ms += 100_000
    timer.advance_clock(0)
    time_s = timer.time()
    hand_clock.ms -= back_ms
    add(timer, ran)
    assert timer.time() == time_s
    for step_ms in (back_ms, 999):
        hand_clock.ms += step_ms
        timer.advance_clock(0)
        assert ran == []
    hand_clock.ms += 1
    timer.advance_clock(0)
    timer.advance_clock(0)
    assert len(ran) == 1


def test_timers_that_were_due_run_even_if_the_clock_goes_back(make, hand_clock):
    timer, ran = make(), []
    begin_ms = hand_clock.ms

    def first():
        hand_clock.ms = begin_ms + 12

    timer.call_later(0.005, first)
    timer.call_many(array("q", [10, 50, 101]), ran.extend)
    timer.call_later(0.06, ran.append, "task")
    hand_clock.ms += 100
    timer.advance_clock(0)
    assert ran == [0, 1, "task"]


@pytest.mark.parametrize("seed", range(5))
def test_random_clock_steps_run_each_task_once_in_order_and_never_early(make, hand_clock, seed):
    chance = seeded_random(seed)
    timer = make(wheel_size=chance.choice([2, 5, 64]))
    tasks, runs, early = [], [], []

    def check(number):
        if timer.time() < tasks[number].deadline:
            early.append(number)
        runs.append(number)

    for _ in range(400):
        hand_clock.ms = max(0, hand_clock.ms + chance.choice([1, 7, 300, 4000, -2, -900, -20_000]))
        tasks.append(timer.call_later(chance.choice([0.001, 0.05, 2, 60]), check, len(tasks)))
        timer.advance_clock(0)
    hand_clock.ms += 10_000_000
    timer.advance_clock(0)
    assert early == []
    assert runs == sorted(range(400), key=lambda number: tasks[number].deadline_ms)


def test_reaper_sleeps_while_the_clock_is_behind(make_timer, hand_clock):
    timer, ran = make_timer(clock=hand_clock, executor="inline"), []
    hand_clock.ms += 10_000_000
    timer.call_later(0, ran.append, "now")
    eventually(lambda: ran == ["now"])
    hand_clock.ms -= 9_000_000
    wakeups = timer.stats().wakeups
    timer.call_later(0.001, ran.append, "later")
    threads_had_time = make_timer().call_later(0.2, int)
    eventually(lambda: threads_had_time.expired)
    assert timer.stats().wakeups - wakeups <= 2 and ran == ["now"]
    hand_clock.ms += 9_000_001
    timer.time()  # any reading wakes the reaper
    eventually(lambda: ran == ["now", "later"])


def test_delay_queue_delivers_when_the_clock_has_caught_up(make, hand_clock):
    queue = DelayQueue(timer=make())
    queue.put("a", 1)
    hand_clock.ms -= 500
    assert queue.peek().remaining() == 1
    queue.put("b", 1)
    hand_clock.ms += 1499
    assert queue.peek().remaining() == pytest.approx(0.001) and len(queue) == 2
    hand_clock.ms += 1
    assert [queue.get_nowait(), queue.get_nowait()] == ["a", "b"]


def test_failing_clock_does_not_end_a_periodic_task(make_timer, hand_clock):
    reported, runs, fails = [], [], []

    def clock():
        if fails:
            raise fails.pop()
        return hand_clock.ms

    timer = make_timer(executor="inline", clock=clock, reaper=False, on_error=lambda _, error: reported.append(error))

    def run():
        runs.append(hand_clock.ms)
        if len(runs) == 1:
            fails.append(OSError("no clock now"))  # for the next reading, when the task is added again

    task = timer.call_every(1, run)
    hand_clock.ms += 1000
    timer.advance_clock(0)
    assert task.pending and [type(error) for error in reported] == [OSError]
    hand_clock.ms += 1000
    timer.advance_clock(0)
    assert runs == [1_001_000, 1_002_000]
