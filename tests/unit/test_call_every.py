"""call_every(): the grid of times, missed ticks, and jitter.

In virtual time a run takes no time; a coarse tick makes a run miss times of its grid.
"""

import random

import pytest

from hwheel import ManualTimer, TimerTask
from programs import output_of


def times_of(timer, ran):
    return lambda: ran.append(round(timer.time() * 1000))


def test_first_run_is_after_one_interval(ran):
    timer = ManualTimer(start_ms=1000)
    task = timer.call_every(0.1, times_of(timer, ran))
    assert (task.pending, task.deadline_ms) == (True, 1100)
    timer.advance(0.099)
    assert ran == []
    timer.advance(0.301)
    assert ran == [1100, 1200, 1300, 1400]
    assert (task.pending, task.deadline_ms) == (True, 1500)
    task.cancel()


def test_each_run_gets_the_arguments(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, lambda *args: ran.append(args), 1, "two")
    timer.advance(0.2)
    assert ran == [(1, "two"), (1, "two")]
    task.cancel()
    assert (task.callback, task.args) == (None, None)


@pytest.mark.parametrize("missed", ["skip", "burst", "delay"])
def test_interval_with_a_fraction_of_a_millisecond_does_not_drift(missed, ran):
    timer = ManualTimer()
    task = timer.call_every(1 / 3, times_of(timer, ran), missed_ticks=missed)
    timer.advance(3)
    if missed == "delay":
        assert ran == [334 * i for i in range(1, 9)]  # each interval starts at the run before
    else:
        assert ran == [334, 667, 1000, 1334, 1667, 2000, 2334, 2667, 3000]
    task.cancel()


def test_delay_waits_one_interval_after_each_run(ran):
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


@pytest.mark.parametrize("missed", ["skip", "burst", "delay"])
def test_cancel_inside_the_callback(missed, ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, lambda: ran.append(task.cancel()), missed_ticks=missed)
    timer.advance(1)
    assert ran == [True]
    assert (task.cancelled, task.pending, task.expired) == (True, False, False)
    assert len(timer) == 0


def test_each_run_counts_as_one_timer():
    timer = ManualTimer()
    task = timer.call_every(0.1, lambda: None)
    timer.advance(1)
    assert timer.stats()[:3] == (11, 10, 0)
    assert timer.pending() == [task]
    task.cancel()


def test_exception_is_reported_and_runs_continue(ran):
    timer = ManualTimer(on_error=lambda task, error: ran.append(type(error)))
    task = timer.call_every(0.1, lambda: 1 // 0)
    timer.advance(0.3)
    assert ran == [ZeroDivisionError] * 3
    assert task.pending
    task.cancel()


def test_close_returns_the_task(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, ran.append, "ran")
    timer.advance(0.1)
    assert timer.close() == [task]
    assert task.cancelled
    assert ran == ["ran"]


def test_close_inside_the_callback(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, lambda: ran.append(timer.close()))
    timer.advance(1)
    assert ran == [[]]
    assert not task.pending


def test_next_run_is_added_after_the_previous_run(ran):
    timer = ManualTimer()
    timer.add(TimerTask(200, ran.append, "before"))
    task = timer.call_every(0.1, ran.append, "every")
    timer.add(TimerTask(200, ran.append, "added before the first run"))
    timer.advance(0.1)
    timer.add(TimerTask(100, ran.append, "added after the first run"))
    timer.advance(0.1)
    assert ran == ["every", "before", "added before the first run", "every", "added after the first run"]
    task.cancel()


def test_reschedule_between_runs(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, times_of(timer, ran))
    timer.advance(0.05)
    assert task.reschedule(0.01)
    timer.advance(0.01)
    assert ran == [60]
    assert task.pending
    task.cancel()


def test_periodic_task_cannot_be_added(ran):
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


# --- jitter: each run is late by a random part of it; the grid stays --------------------------------------------------


class Draws:
    """A source that repeats the given parts; an exception class is raised."""

    def __init__(self, *parts):
        self.parts = parts
        self.count = 0

    def random(self):
        self.count += 1
        part = self.parts[(self.count - 1) % len(self.parts)]
        if isinstance(part, type):
            raise part
        return part


@pytest.mark.parametrize("missed", ["skip", "burst"])
def test_each_run_is_late_by_the_drawn_part_of_the_jitter(missed, ran):
    timer = ManualTimer()
    source = Draws(0.5, 0.0, 1.0, 0.25)
    task = timer.call_every(0.1, times_of(timer, ran), missed_ticks=missed, jitter=0.04, random=source)
    assert (task.deadline_ms, task.delay_ms) == (120, 100)
    timer.advance(1)
    assert ran == [120, 200, 340, 410, 520, 600, 740, 810, 920, 1000]
    task.cancel()


def test_jitter_with_delay(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, times_of(timer, ran), missed_ticks="delay", jitter=0.04, random=Draws(0.5, 0.0, 1.0))
    timer.advance(0.7)
    assert ran == [120, 220, 360, 480, 580]
    task.cancel()


def test_seeded_jitter_repeats_and_is_spread_evenly():
    def times(seed):
        timer, ran = ManualTimer(), []
        timer.call_every(1, times_of(timer, ran), jitter=0.5, random=random.Random(seed))
        timer.advance(1001)
        timer.close()
        return ran

    assert times(1) == times(1) != times(2)
    later = [time % 1000 for time in times(3)]
    assert len(later) == 1000
    assert min(later) < 20 and max(later) > 480 and max(later) <= 500
    assert 200 < sum(later) / len(later) < 300


def test_default_source_differs_by_task_and_leaves_the_global_one_alone():
    random.seed(5)
    usual = random.random()
    random.seed(5)
    timer = ManualTimer()
    tasks = [timer.call_every(1000, int, jitter=1000) for _ in range(20)]
    assert len({task.deadline_ms for task in tasks}) > 15
    assert all(1_000_000 <= task.deadline_ms <= 2_000_000 for task in tasks)
    assert random.random() == usual
    timer.close()


def test_jitter_longer_than_the_interval_skips_past_times(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, times_of(timer, ran), jitter=0.3, random=Draws(1.0, 0.0, 0.5))
    timer.advance(1)
    assert ran == [400, 500, 750, 1000]
    task.cancel()


@pytest.mark.parametrize("part", [ValueError, -0.1, 1.1, float("nan"), None, "0.5", 1, True])
def test_invalid_draw_is_reported_and_the_run_is_on_the_grid(part, ran):
    reported = []
    timer = ManualTimer(on_error=lambda task, error: reported.append((task, type(error))))
    source = Draws(0.5)
    task = timer.call_every(0.1, times_of(timer, ran), jitter=0.04, random=source)
    timer.advance(0.05)
    source.parts = (part,)
    timer.advance(0.25)
    assert ran == [120, 200, 300]
    assert reported == [(task, ValueError)] * 3
    source.parts = (0.5,)
    timer.advance(0.2)
    assert ran == [120, 200, 300, 400]
    timer.advance(0.021)
    assert ran[-1] == 520
    task.cancel()


def test_failing_first_draw_is_raised_by_call_every():
    timer = ManualTimer()
    with pytest.raises(ZeroDivisionError):
        timer.call_every(1, int, jitter=1, random=Draws(ZeroDivisionError))
    with pytest.raises(ValueError, match="from 0 to 1"):
        timer.call_every(1, int, jitter=1, random=Draws(2.0))
    assert timer.stats()[:3] == (0, 0, 0)


def test_failing_draw_is_raised_by_advance_and_runs_continue(ran):
    timer = ManualTimer()
    source = Draws(0.0)
    task = timer.call_every(0.1, times_of(timer, ran), jitter=0.04, random=source)
    source.parts = (ZeroDivisionError,)
    with pytest.raises(ZeroDivisionError):
        timer.advance(0.15)
    source.parts = (0.0,)
    timer.advance(0.2)
    assert ran == [100, 200, 300]
    task.cancel()


def test_zero_jitter_draws_nothing(ran):
    timer = ManualTimer()
    source = Draws(0.5)
    task = timer.call_every(0.1, times_of(timer, ran), jitter=0, random=source)
    timer.advance(0.3)
    assert (ran, source.count) == ([100, 200, 300], 0)
    task.cancel()


def test_jitter_and_slack_together(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, times_of(timer, ran), jitter=0.04, slack=0.02, random=Draws(0.5))
    timer.advance(0.5)
    assert ran == [128, 224, 320, 432]  # 120 to 140, 220 to 240, 320 to 340, 420 to 440
    task.cancel()


FIRST_OF_TWO = """
import random
from hwheel import ManualTimer

timer = ManualTimer()

class Source(random.SystemRandom):
    is_first = True

    def __init__(self):
        super().__init__()
        if Source.is_first:
            Source.is_first = False
            timer.call_every(1, print, jitter=1)    # as another thread may do at this moment

random.SystemRandom = Source
timer.call_every(1, print, jitter=1)
print(len(ManualTimer().load(timer.dump()).tasks))
"""


def test_concurrent_first_calls_share_one_source():
    # dump() recognizes the default source by identity.
    assert output_of("-c", FIRST_OF_TWO).split() == ["2"]
