"""Many threads add to one timer, most of it to run later than what the reaper sleeps for. On a CPython without a GIL
that goes through inboxes; what is promised holds everywhere."""

import threading
import time
import tracemalloc
from collections import Counter, defaultdict
from functools import partial

import pytest

from hwheel import SystemTimer
from sampling import seeded_random
from systems import collect_if_free_threaded
from threads import errors_in_threads


class Call:
    """A call that knows when its add began, and when that had returned."""

    def __init__(self, timer, delay_s, ran):
        self.began_ns = time.monotonic_ns()
        self.task = timer.call_later(delay_s, ran.append, self)
        self.returned_ns = time.monotonic_ns()

    @property
    def was_in_time(self):
        """Whether it was in the timer before its own time was over."""
        return self.returned_ns < (self.task.deadline_ms - 1) * 1_000_000


@pytest.mark.parametrize("tick_ms", [1, 20])
def test_across_threads_what_was_added_first_runs_first(
    make_timer, ordered_executor, soak_seconds, eventually, tick_ms
):
    timer = make_timer(executor=ordered_executor, tick_ms=tick_ms, wheel_size=16)
    often = timer.call_every(0.003, int)  # so that the reaper sleeps for a time that most calls are beyond
    ran = []
    added = [[] for _ in range(10)]  # more threads than there are inboxes
    cancelled = [[] for _ in added]
    end = time.monotonic() + soak_seconds

    def add(number):
        dice = seeded_random(number)
        while time.monotonic() < end:
            for _ in range(dice.choice([1, 1, 300])):  # more than there is room for in an inbox
                added[number].append(Call(timer, dice.uniform(0.001, 0.03), ran))
            other = added[dice.randrange(len(added))]
            for call in other[-dice.randrange(1, 20) :]:
                if call.task.cancel():
                    cancelled[number].append(call)
            time.sleep(dice.uniform(0, 0.02))

    assert errors_in_threads([partial(add, number) for number in range(len(added))]) == []
    often.cancel()
    count = sum(map(len, added))
    eventually(lambda: len(ran) + sum(map(len, cancelled)) == count)
    once = Counter(map(id, ran)) + Counter(id(call) for calls in cancelled for call in calls)
    assert set(once.values()) == {1}
    of_tick = defaultdict(list)
    for call in ran:
        if call.was_in_time:
            of_tick[-(-call.task.deadline_ms // tick_ms)].append(call)
    assert len(of_tick) > 10
    for calls in of_tick.values():
        latest_began_ns = 0
        for call in calls:
            assert call.returned_ns >= latest_began_ns  # else this one was there before that began, which ran first
            latest_began_ns = max(latest_began_ns, call.began_ns)


def test_what_waits_is_counted_and_comes_back_from_close(make_timer):
    timer = make_timer(executor="inline")
    timer.call_later(5000, int)  # so that the reaper sleeps, until before all others
    time.sleep(0.05)
    added = [[] for _ in range(10)]
    cancelled = [0] * len(added)
    passed = threading.Barrier(len(added))

    def add(number):
        dice = seeded_random(number)
        for _ in range(5):
            for _ in range(dice.randrange(200)):
                added[number].append(timer.call_later(dice.uniform(6000, 100_000), int))
            cancelled[number] += sum(task.cancel() for task in dice.sample(added[number], len(added[number]) // 3))
            passed.wait()
            count = 1 + sum(map(len, added)) - sum(cancelled)
            assert len(timer) == count == timer.stats().pending == len(timer.pending())
            passed.wait()

    assert errors_in_threads([partial(add, number) for number in range(len(added))]) == []
    count = len(timer)
    assert len({id(task) for task in timer.close()}) == count


def test_a_call_that_is_earlier_than_what_the_reaper_sleeps_for_wakes_it(make_timer, executor):
    timer = make_timer(executor=executor)
    timer.call_later(3600, int)

    def wait(number):
        dice = seeded_random(number)
        for _ in range(100):
            rang = threading.Event()
            later = timer.call_later(dice.uniform(0.1, 7200), int)  # of which some change what it sleeps for
            timer.call_later(dice.uniform(0, 0.005), rang.set)
            assert rang.wait(50)
            later.cancel()

    assert errors_in_threads([partial(wait, number) for number in range(3)]) == []


@pytest.mark.parametrize("by_another_thread", [False, True], ids=["one thread", "two threads"])
def test_a_timer_goes_with_the_last_of_its_tasks(by_another_thread):
    def add(timer, tasks):
        tasks.extend(timer.call_later(0.1, int) for _ in range(5))

    def make_and_drop():
        timer = SystemTimer(executor="inline", reaper=False, wheel_size=256)
        tasks = []

        add(timer, tasks)
        if by_another_thread:
            assert errors_in_threads([partial(add, timer, tasks)]) == []
        del timer
        collect_if_free_threaded()
        for task in tasks:
            assert not task.cancel()  # the timer has let go of it
        tasks.clear()

    def one_round():
        for _ in range(10):
            make_and_drop()
        collect_if_free_threaded()

    for _ in range(3):
        one_round()
    tracemalloc.start()
    try:
        one_round()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(10):
            one_round()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 200_000  # a timer is some 40,000 bytes
