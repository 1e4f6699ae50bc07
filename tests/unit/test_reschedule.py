"""TimerTask.reschedule: moves what is pending, to the end of its new tick."""

import pytest

from hwheel import ManualTimer, TimerTask, TimingWheel


def test_a_rescheduled_task_runs_at_its_new_time_from_now_and_only_then(ran):
    timer = ManualTimer()
    task = timer.add(TimerTask(10, lambda: ran.append(timer.time())))
    timer.advance(0.005)
    assert task.reschedule(0.1)
    assert (task.delay_ms, task.deadline_ms, task.pending) == (100, 105, True)
    timer.advance(1)
    assert ran == [0.105]
    assert timer.stats()[:3] == (1, 1, 0)


def test_a_task_can_be_rescheduled_to_an_earlier_time(ran):
    timer = ManualTimer()
    task = timer.add(TimerTask(5000, lambda: ran.append(timer.time())))
    assert task.reschedule(0.003)
    timer.advance(0.003)
    assert ran == [0.003]


def test_a_rescheduled_task_goes_behind_all_others_of_its_new_tick(ran):
    timer = ManualTimer(wheel_size=3)
    first = timer.add(TimerTask(2, ran.append, "first"))
    timer.add(TimerTask(50, ran.append, "second"))
    assert first.reschedule(0.05)
    timer.add(TimerTask(50, ran.append, "third"))
    timer.advance(0.05)
    assert ran == ["second", "first", "third"]


def test_rescheduling_to_the_same_time_moves_a_task_to_the_end_of_its_tick(ran):
    timer = ManualTimer()
    tasks = [timer.add(TimerTask(5, ran.append, number)) for number in range(4)]
    tasks[1].reschedule(0.005)
    tasks[0].reschedule(0.005)
    timer.advance(0.005)
    assert ran == [2, 3, 1, 0]


def test_a_task_rescheduled_on_a_fine_level_stays_behind_those_that_come_down_from_coarse_ones(ran):
    timer = ManualTimer(wheel_size=20)
    timer.add(TimerTask(410, ran.append, "level 3"))
    moved = timer.add(TimerTask(5000, ran.append, "moved"))
    timer.advance(0.395)
    assert moved.reschedule(0.015)
    timer.add(TimerTask(15, ran.append, "level 1"))
    timer.advance(0.1)
    assert ran == ["level 3", "moved", "level 1"]


@pytest.mark.parametrize("delay_ms", [0, -5])
def test_a_task_rescheduled_to_now_is_due_at_once_but_never_in_the_caller(delay_ms, ran):
    timer = ManualTimer()
    timer.advance(0.007)
    task = timer.add(TimerTask(100, ran.append, "ran"))
    assert task.reschedule(delay_ms / 1000)
    assert task.pending
    assert ran == []
    timer.advance(0)
    assert ran == ["ran"]


def test_a_bare_wheel_returns_what_was_rescheduled_to_now_from_the_next_poll():
    wheel = TimingWheel(start_ms=1000)
    first, second = TimerTask(0), TimerTask(0)
    wheel.add(first, 1005)
    wheel.add(second, 1005)
    assert wheel.poll(1001) == []
    assert second.reschedule(0)
    assert second.pending
    assert wheel.next_expiration_ms <= 1001
    assert len(wheel) == 2
    assert wheel.poll(1001) == [second]
    assert wheel.poll(1005) == [first]


def test_now_is_the_clock_of_a_bare_wheel(where):
    wheel = TimingWheel()
    early, task = TimerTask(0), TimerTask(0)
    wheel.add(early, 7)
    wheel.add(task, 1000)
    wheel.poll(7)
    assert wheel.current_time_ms == 7
    assert task.reschedule(0.005)
    assert task.deadline_ms == 12
    assert where(wheel, task) == (1, 12, 12)


def test_rescheduling_what_is_not_pending_says_so_and_does_nothing():
    timer = ManualTimer()
    new, cancelled, expired = TimerTask(5), timer.add(TimerTask(5)), timer.add(TimerTask(5))
    cancelled.cancel()
    timer.advance(0.005)
    before = timer.stats()
    for task in (new, cancelled, expired):
        deadline_ms = task.deadline_ms
        assert not task.reschedule(0.009)
        assert (task.delay_ms, task.deadline_ms) == (5, deadline_ms)
    assert timer.stats() == before
    assert (new.pending, cancelled.cancelled, expired.expired) == (False, True, True)


def test_a_callback_may_reschedule_a_task_of_its_own_tick(ran):
    timer = ManualTimer()
    timer.add(TimerTask(5, lambda: ran.append(task.reschedule(0.003))))
    task = timer.add(TimerTask(5, lambda: ran.append(timer.time())))
    timer.advance(0.01)
    assert ran == [True, 0.008]


def test_a_deadline_beyond_64_bits_is_refused_and_the_task_stays_where_it_was(where):
    wheel = TimingWheel(start_ms=2**62)
    task = TimerTask(5)
    wheel.add(task, 2**62 + 5)
    before = wheel.snapshot()
    with pytest.raises(OverflowError, match="64 bits"):
        task.reschedule((2**62) / 1000)
    assert wheel.snapshot() == before
    assert (task.delay_ms, task.deadline_ms, task.pending) == (5, 2**62 + 5, True)
    assert wheel.poll(2**62 + 5) == [task]
