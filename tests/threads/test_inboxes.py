"""Adds of several threads to one timer.

Without a GIL they go through inboxes (timer/inbox.pxi). This must not affect the order, len(), cancel(), or close().
"""

import contextlib
import threading
import time
import tracemalloc
from collections import Counter, defaultdict, deque
from functools import partial

import pytest

from hwheel import SystemTimer, TimerClosed
from sampling import search_seconds, seeded_random
from systems import collect_if_free_threaded
from threads import errors_in_threads, run_concurrently

FAR_OFF_S = 3600
MANY = 300  # more than the capacity of an inbox


def put_reaper_to_sleep(timer, until_s):
    """Let the reaper sleep until until_s, so that later deadlines go to an inbox without waking it."""
    first = timer.call_at(until_s, int)
    time.sleep(0.05)  # the first task wakes the reaper, which then sleeps again
    return first


def test_adds_that_take_the_lock_run_after_earlier_adds(make_timer, eventually):
    """Adds to a group and reschedules take the lock, in contrast to plain adds of other threads."""
    timer = make_timer(executor="inline")
    ran = []
    when_s = timer.time() + 1
    put_reaper_to_sleep(timer, when_s)
    group = timer.group()
    moved = timer.call_at(when_s - 0.5, ran.append, "moved")
    run_concurrently(lambda: timer.call_at(when_s, ran.append, 1))
    group.call_at(when_s, ran.append, 2)
    run_concurrently(lambda: timer.call_at(when_s, ran.append, 3))
    assert moved.reschedule(when_s - timer.time()) or "moved" in ran
    run_concurrently(lambda: timer.call_at(when_s, ran.append, 4))
    eventually(lambda: len(ran) == 5)
    assert [name for name in ran if name != "moved"] == [1, 2, 3, 4]


def test_only_one_of_two_concurrent_cancels_succeeds(make_timer):
    timer = make_timer(executor="inline")
    put_reaper_to_sleep(timer, timer.time() + FAR_OFF_S)
    handed, ran, succeeded = deque(), [], []
    over = threading.Event()

    def add():
        give_up = time.monotonic() + search_seconds(0.5)
        while time.monotonic() < give_up:
            task = timer.call_later(FAR_OFF_S + 1, ran.append, 1)
            handed.append(task)
            if task.cancel():
                succeeded.append(task)
        over.set()

    def cancel():
        while not over.is_set() or handed:
            try:
                task = handed.popleft()
            except IndexError:
                continue
            if task.cancel():
                succeeded.append(task)
            assert task.cancelled

    run_concurrently(add, cancel, cancel)
    stats = timer.stats()
    assert stats.cancelled == len(succeeded) == stats.added - 1
    assert ran == []
    assert len(timer) == 1


def test_next_deadline_includes_adds_of_other_threads(make_timer):
    timer = make_timer()
    first = put_reaper_to_sleep(timer, timer.time() + 100)
    run_concurrently(lambda: timer.call_later(101, int))
    assert first.cancel()
    assert timer.next_deadline is not None
    assert len(timer) == 1


@pytest.mark.parametrize("executor", [None, "inline"])
def test_each_add_during_close_is_returned_run_or_refused(make_timer, executor):
    dice = seeded_random(12)
    for _ in range(20):
        timer = make_timer(executor=executor)
        put_reaper_to_sleep(timer, timer.time() + 0.1)
        added, ran, returned = [], [], []
        wait_s = dice.uniform(0, 0.02)

        def add(delays_s, timer=timer, added=added, ran=ran):
            with contextlib.suppress(TimerClosed):
                for delay_s in delays_s:
                    added.append(timer.call_later(delay_s, lambda: ran.append(1)))

        def close(timer=timer, returned=returned, wait_s=wait_s):
            time.sleep(wait_s)
            returned.extend(timer.close())

        works = [partial(add, [dice.uniform(0.1, 0.3) for _ in range(20_000)]) for _ in range(2)]
        run_concurrently(*works, close)
        assert len(timer) == 0 and timer.pending() == []
        assert all(task.expired or task.cancelled for task in added)
        assert {id(task) for task in added if task.cancelled} <= {*map(id, returned)}
        assert len([task for task in added if task.expired]) == len(ran)


def test_tasks_outlive_their_timer():
    """Each task keeps a reference to its timer's memory, and releases it in any thread."""
    for _ in range(20):
        tasks = tasks_of_a_deleted_timer()
        assert all(task.cancelled for task in tasks)
        some, others = tasks[::2], tasks[1::2]
        del tasks
        run_concurrently(some.clear, others.clear)


def tasks_of_a_deleted_timer():
    timer = SystemTimer()
    put_reaper_to_sleep(timer, timer.time() + FAR_OFF_S)
    tasks = []

    def add():
        tasks.extend([timer.call_later(FAR_OFF_S + 1, int) for _ in range(MANY)])

    run_concurrently(add, add, add)
    for task in tasks[::2]:
        assert task.cancel()
    timer.close()
    return tasks


class Call:
    """A task with the times at which its add began and returned."""

    def __init__(self, timer, delay_s, ran):
        self.began_ns = time.monotonic_ns()
        self.task = timer.call_later(delay_s, ran.append, self)
        self.returned_ns = time.monotonic_ns()

    @property
    def added_in_time(self):
        """Return True if the add returned before the deadline."""
        return self.returned_ns < (self.task.deadline_ms - 1) * 1_000_000


@pytest.mark.parametrize("tick_ms", [1, 20])
def test_random_adds_of_one_tick_run_in_order_across_threads(
    make_timer, ordered_executor, soak_seconds, eventually, tick_ms
):
    timer = make_timer(executor=ordered_executor, tick_ms=tick_ms, wheel_size=16)
    often = timer.call_every(0.003, int)  # the reaper sleeps for less than most delays
    ran = []
    added = [[] for _ in range(10)]  # more threads than there are inboxes
    cancelled = [[] for _ in added]
    end = time.monotonic() + soak_seconds

    def add(number):
        dice = seeded_random(number)
        while time.monotonic() < end:
            for _ in range(dice.choice([1, 1, 300])):  # more than the capacity of an inbox
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
        if call.added_in_time:
            of_tick[-(-call.task.deadline_ms // tick_ms)].append(call)
    assert len(of_tick) > 10
    for calls in of_tick.values():
        latest_began_ns = 0
        for call in calls:
            assert call.returned_ns >= latest_began_ns  # else an add that began later ran first
            latest_began_ns = max(latest_began_ns, call.began_ns)


def test_random_adds_are_counted_and_returned_by_close(make_timer):
    timer = make_timer(executor="inline")
    timer.call_later(5000, int)  # the reaper sleeps, and all other deadlines are later
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
            assert len(timer) == count == len(timer.pending())
            stats = timer.stats()
            assert (stats.added, stats.cancelled, stats.pending) == (1 + sum(map(len, added)), sum(cancelled), count)
            passed.wait()

    assert errors_in_threads([partial(add, number) for number in range(len(added))]) == []
    left = [task for tasks in added for task in tasks if task.pending]
    for found in (timer.pending(), timer.close()):
        assert sorted(map(id, found[1:])) == sorted(map(id, left))


def test_every_earlier_deadline_wakes_the_reaper(make_timer, executor):
    timer = make_timer(executor=executor)
    timer.call_later(3600, int)

    def wait(number):
        dice = seeded_random(number)
        for _ in range(100):
            rang = threading.Event()
            later = timer.call_later(dice.uniform(0.1, 7200), int)  # some of these change the reaper's wake-up
            timer.call_later(dice.uniform(0, 0.005), rang.set)
            assert rang.wait(50)
            later.cancel()

    assert errors_in_threads([partial(wait, number) for number in range(3)]) == []


@pytest.mark.parametrize("by_another_thread", [False, True], ids=["one thread", "two threads"])
def test_deleted_timer_frees_its_memory_with_its_last_task(by_another_thread):
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
            assert not task.cancel()  # the deleted timer has released its tasks
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
    assert after - before < 200_000  # one timer takes about 40,000 bytes
