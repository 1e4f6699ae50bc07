"""call_every: the grid of times, and the three ways with times that were missed.

In virtual time a run takes no time; it is a coarse tick that makes a run miss times of its grid.
"""

import pytest

from hwheel import ManualTimer, TimerTask


def times_of(timer, ran):
    return lambda: ran.append(round(timer.time() * 1000))


def test_it_runs_every_interval_first_in_one_interval(ran):
    timer = ManualTimer(start_ms=1000)
    task = timer.call_every(0.1, times_of(timer, ran))
    assert (task.pending, task.deadline_ms) == (True, 1100)
    timer.advance(0.099)
    assert ran == []
    timer.advance(0.301)
    assert ran == [1100, 1200, 1300, 1400]
    assert (task.pending, task.deadline_ms) == (True, 1500)
    task.cancel()


def test_arguments_are_passed_on_each_run(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, lambda *args: ran.append(args), 1, "two")
    timer.advance(0.2)
    assert ran == [(1, "two"), (1, "two")]
    task.cancel()
    assert (task.callback, task.args) == (None, None)


@pytest.mark.parametrize("missed", ["skip", "burst", "delay"])
def test_an_interval_of_a_fraction_of_a_millisecond_does_not_drift(missed, ran):
    timer = ManualTimer()
    task = timer.call_every(1 / 3, times_of(timer, ran), missed_ticks=missed)
    timer.advance(3)
    if missed == "delay":
        assert ran == [334 * i for i in range(1, 9)]  # each interval starts at the run before
    else:
        assert ran == [334, 667, 1000, 1334, 1667, 2000, 2334, 2667, 3000]
    task.cancel()


def test_missed_skip_goes_on_at_the_next_time_of_the_grid(ran):
    timer = ManualTimer(tick_ms=20)
    task = timer.call_every(0.007, times_of(timer, ran), missed_ticks="skip")
    timer.advance(0.1)
    assert ran == [20, 40, 60, 80, 100]
    task.cancel()


def test_missed_burst_makes_up_for_each_time_that_was_missed(ran):
    timer = ManualTimer(tick_ms=20)
    task = timer.call_every(0.007, times_of(timer, ran), missed_ticks="burst")
    timer.advance(0.06)
    assert ran == [20, 20, 40, 40, 40, 60, 60, 60]  # 7 14 | 21 28 35 | 42 49 56
    assert timer.stats()[:3] == (9, 8, 0)
    task.cancel()


def test_missed_delay_waits_a_whole_interval_from_the_end_of_the_run(ran):
    timer = ManualTimer(tick_ms=10)
    delayed = timer.call_every(0.015, times_of(timer, ran), missed_ticks="delay")
    timer.advance(0.08)
    assert ran == [20, 40, 60, 80]
    delayed.cancel()
    ran.clear()
    skipping = timer.call_every(0.015, times_of(timer, ran), missed_ticks="skip")
    timer.advance(0.08)
    assert ran == [100, 110, 130, 140, 160]  # 95 110 125 140 155
    skipping.cancel()


def test_skip_is_what_happens_unless_something_else_is_asked_for(ran):
    timer = ManualTimer(tick_ms=20)
    task = timer.call_every(0.007, times_of(timer, ran))
    timer.advance(0.04)
    assert ran == [20, 40]
    task.cancel()


@pytest.mark.parametrize("missed", ["skip", "burst", "delay"])
def test_a_cancel_inside_the_callback_ends_it_and_says_so(missed, ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, lambda: ran.append(task.cancel()), missed_ticks=missed)
    timer.advance(1)
    assert ran == [True]
    assert (task.cancelled, task.pending, task.expired) == (True, False, False)
    assert len(timer) == 0


def test_a_cancel_between_two_runs_ends_it(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, times_of(timer, ran))
    timer.advance(0.25)
    assert task.cancel()
    assert not task.cancel()
    timer.advance(1)
    assert ran == [100, 200]
    assert timer.stats()[:3] == (3, 2, 1)


def test_each_run_counts_as_one_added_and_one_expired_timer():
    timer = ManualTimer()
    task = timer.call_every(0.1, lambda: None)
    timer.advance(1)
    assert timer.stats()[:3] == (11, 10, 0)
    assert timer.pending() == [task]
    task.cancel()


def test_an_exception_in_a_run_is_reported_and_does_not_end_it(ran):
    timer = ManualTimer(on_error=lambda task, error: ran.append(type(error)))
    task = timer.call_every(0.1, lambda: 1 // 0)
    timer.advance(0.3)
    assert ran == [ZeroDivisionError] * 3
    assert task.pending
    task.cancel()


def test_close_ends_it_and_gives_it_back(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, ran.append, "ran")
    timer.advance(0.1)
    assert timer.close() == [task]
    assert task.cancelled
    assert ran == ["ran"]


def test_close_with_run_pending_runs_it_once_more_and_ends_it(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, ran.append, "ran")
    assert timer.close(run_pending=True) == []
    assert ran == ["ran"]
    assert not task.pending


def test_close_inside_the_callback_ends_it(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, lambda: ran.append(timer.close()))
    timer.advance(1)
    assert ran == [[]]
    assert not task.pending


def test_a_run_goes_behind_what_was_added_for_its_tick_before_it(ran):
    timer = ManualTimer()
    timer.add(TimerTask(200, ran.append, "before"))
    task = timer.call_every(0.1, ran.append, "every")
    timer.add(TimerTask(200, ran.append, "added before the first run"))
    timer.advance(0.1)
    timer.add(TimerTask(100, ran.append, "added after the first run"))
    timer.advance(0.1)
    assert ran == ["every", "before", "added before the first run", "every", "added after the first run"]
    task.cancel()


def test_it_can_be_rescheduled_between_two_runs(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, times_of(timer, ran))
    timer.advance(0.05)
    assert task.reschedule(0.01)
    timer.advance(0.01)
    assert ran == [60]
    assert task.pending
    task.cancel()


def test_a_task_of_call_every_cannot_be_added(ran):
    timer = ManualTimer()

    def add_itself():
        ran.append(1)
        with pytest.raises(ValueError, match="call_every"):
            timer.add(task)

    task = timer.call_every(0.1, add_itself)
    with pytest.raises(ValueError, match="call_every"):
        timer.add(task)
    timer.advance(0.25)
    assert ran == [1, 1] and task.pending
    timer.close()
