"""Calls that several threads add to one timer. Where there is no GIL they go into inboxes first (timer/inbox.pxi), and
nothing that is promised may show that: order, len(), cancel(), close(), a reaper that sleeps for longer."""

import contextlib
import threading
import time
from collections import deque
from functools import partial

import pytest

from hwheel import SystemTimer, TimerClosed
from sampling import search_seconds, seeded_random
from threads import run_concurrently

FAR_OFF_S = 3600
MANY = 300  # more than an inbox holds


def with_a_sleeping_reaper(timer, until_s):
    """The reaper sleeps until something that is due then: what comes for later need not wake it."""
    first = timer.call_at(until_s, int)
    time.sleep(0.05)  # it was woken for the first task, and lies down again
    return first


@pytest.mark.parametrize("threads", [2, 3, 11])
def test_what_threads_add_in_turns_for_one_tick_runs_in_the_order_of_the_adds(
    make_timer, ordered_executor, eventually, threads
):
    """Each add begins after the last one has returned, in another thread."""
    timer = make_timer(executor=ordered_executor)
    for lead_s in (0.3, 1.2, 5, 20):  # a busy machine may take long for the adds
        ran = []
        when_s = timer.time() + lead_s
        with_a_sleeping_reaper(timer, when_s)
        turns = deque(range(40 * threads))
        may_go = [threading.Semaphore(0) for _ in range(threads)]

        def add(number, when_s=when_s, ran=ran, turns=turns, may_go=may_go):
            while True:
                may_go[number].acquire()
                if turns:
                    turn = turns.popleft()
                    timer.call_at(when_s, ran.append, turn)
                    may_go[turn % 7 % threads].release()
                else:
                    for other in may_go:
                        other.release()
                    return

        may_go[0].release()
        run_concurrently(*[partial(add, number) for number in range(threads)])
        if timer.time() < when_s:
            break
        timer = make_timer(executor=ordered_executor)
    eventually(lambda: len(ran) == 40 * threads)
    assert ran == [*range(40 * threads)]


def test_what_comes_through_the_lock_runs_behind_what_threads_have_added_before(make_timer, eventually):
    """A batch, a group's task and one that is moved take the lock, whoever has added what before."""
    timer = make_timer(executor="inline")
    ran = []
    when_s = timer.time() + 1
    with_a_sleeping_reaper(timer, when_s)
    group = timer.group()
    moved = timer.call_at(when_s - 0.5, ran.append, "moved")
    run_concurrently(lambda: timer.call_at(when_s, ran.append, 1))
    group.call_at(when_s, ran.append, 2)
    run_concurrently(lambda: timer.call_at(when_s, ran.append, 3))
    assert moved.reschedule(when_s - timer.time()) or "moved" in ran
    run_concurrently(lambda: timer.call_at(when_s, ran.append, 4))
    eventually(lambda: len(ran) == 5)
    assert [what for what in ran if what != "moved"] == [1, 2, 3, 4]


def test_len_stats_and_pending_count_what_all_threads_have_added(make_timer):
    timer = make_timer()
    with_a_sleeping_reaper(timer, timer.time() + FAR_OFF_S)
    tasks = []

    def add_and_cancel():
        mine = [timer.call_later(FAR_OFF_S + 1, int) for _ in range(MANY)]
        for task in mine[::3]:
            assert task.cancel()
            assert not task.cancel()
        tasks.extend(mine)

    for turn in range(1, 4):
        run_concurrently(add_and_cancel, add_and_cancel)
        left = [task for task in tasks if task.pending]
        assert len(left) == turn * 2 * MANY * 2 // 3
        assert len(timer) == 1 + len(left)
        assert {*map(id, timer.pending()[1:])} == {*map(id, left)}
        stats = timer.stats()
        assert (stats.added, stats.cancelled, stats.pending) == (1 + len(tasks), len(tasks) - len(left), 1 + len(left))


def test_another_thread_cancels_what_was_just_added(make_timer):
    """Of two that cancel a task at once, one has done it."""
    timer = make_timer(executor="inline")
    with_a_sleeping_reaper(timer, timer.time() + FAR_OFF_S)
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


def test_what_is_due_earlier_than_the_reaper_wakes_up_wakes_it(make_timer, eventually):
    timer = make_timer()
    with_a_sleeping_reaper(timer, timer.time() + FAR_OFF_S)
    ran = []

    def add():
        timer.call_later(FAR_OFF_S + 1, ran.append, "never")
        timer.call_later(0.002, ran.append, "soon")
        timer.call_later(FAR_OFF_S + 1, ran.append, "never")

    run_concurrently(add, add)
    eventually(lambda: ran == ["soon", "soon"])


def test_what_was_added_for_later_and_is_moved_to_now_runs_now(make_timer, eventually):
    timer = make_timer()
    with_a_sleeping_reaper(timer, timer.time() + FAR_OFF_S)
    ran, tasks = [], []
    run_concurrently(lambda: tasks.append(timer.call_later(FAR_OFF_S + 1, ran.append, 1)))
    assert tasks[0].reschedule(0.001)
    eventually(lambda: ran == [1])


def test_next_deadline_knows_what_threads_have_added(make_timer):
    timer = make_timer()
    first = with_a_sleeping_reaper(timer, timer.time() + 100)
    run_concurrently(lambda: timer.call_later(101, int))
    assert first.cancel()
    assert timer.next_deadline is not None
    assert len(timer) == 1


@pytest.mark.parametrize("executor", [None, "inline"])
def test_close_amid_adds_returns_runs_or_refuses_each(make_timer, executor):
    dice = seeded_random(12)
    for _ in range(20):
        timer = make_timer(executor=executor)
        with_a_sleeping_reaper(timer, timer.time() + 0.1)
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
    """A task has a reference to its timer's memory, wherever it has it from, and gives it back wherever it dies."""
    for _ in range(20):
        tasks = tasks_of_a_timer_that_is_gone()
        assert all(task.cancelled for task in tasks)
        some, others = tasks[::2], tasks[1::2]
        del tasks
        run_concurrently(some.clear, others.clear)


def tasks_of_a_timer_that_is_gone():
    timer = SystemTimer()
    with_a_sleeping_reaper(timer, timer.time() + FAR_OFF_S)
    tasks = []

    def add():
        tasks.extend([timer.call_later(FAR_OFF_S + 1, int) for _ in range(MANY)])

    run_concurrently(add, add, add)
    for task in tasks[::2]:
        assert task.cancel()
    timer.close()
    return tasks
