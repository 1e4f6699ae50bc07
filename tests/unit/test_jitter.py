"""jitter: each run of a call_every comes later than its time by a random part of it; the grid stays."""

import random

import pytest

from hwheel import ManualTimer
from programs import output_of


class Draws:
    """A source that says what it is told to, over and over."""

    def __init__(self, *parts):
        self.parts = parts
        self.count = 0

    def random(self):
        self.count += 1
        part = self.parts[(self.count - 1) % len(self.parts)]
        if isinstance(part, type):
            raise part
        return part


def times_of(timer, ran):
    return lambda: ran.append(round(timer.time() * 1000))


@pytest.mark.parametrize("missed", ["skip", "burst"])
def test_each_run_is_later_than_the_grid_by_what_was_drawn_and_the_grid_stays(missed, ran):
    timer = ManualTimer()
    source = Draws(0.5, 0.0, 1.0, 0.25)
    task = timer.call_every(0.1, times_of(timer, ran), missed_ticks=missed, jitter=0.04, random=source)
    assert (task.deadline_ms, task.delay_ms) == (120, 100)
    timer.advance(1)
    assert ran == [120, 200, 340, 410, 520, 600, 740, 810, 920, 1000]
    task.cancel()


def test_delay_begins_an_interval_after_each_run(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, times_of(timer, ran), missed_ticks="delay", jitter=0.04, random=Draws(0.5, 0.0, 1.0))
    timer.advance(0.7)
    assert ran == [120, 220, 360, 480, 580]
    task.cancel()


def test_a_seeded_source_repeats_and_its_parts_are_spread_over_all_of_the_jitter():
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


def test_by_itself_it_is_another_one_for_each_task_and_disturbs_nobodys_random_numbers():
    random.seed(5)
    usual = random.random()
    random.seed(5)
    timer = ManualTimer()
    tasks = [timer.call_every(1000, int, jitter=1000) for _ in range(20)]
    assert len({task.deadline_ms for task in tasks}) > 15
    assert all(1_000_000 <= task.deadline_ms <= 2_000_000 for task in tasks)
    assert random.random() == usual
    timer.close()


def test_a_jitter_longer_than_the_interval_leaves_out_what_is_over(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, times_of(timer, ran), jitter=0.3, random=Draws(1.0, 0.0, 0.5))
    timer.advance(1)
    assert ran == [400, 500, 750, 1000]
    task.cancel()


@pytest.mark.parametrize("part", [ValueError, -0.1, 1.1, float("nan"), None, "0.5", 1, True])
def test_a_source_that_fails_is_reported_and_the_run_comes_at_its_time(part, ran):
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


def test_a_source_that_fails_at_once_is_an_error_of_the_call():
    timer = ManualTimer()
    with pytest.raises(ZeroDivisionError):
        timer.call_every(1, int, jitter=1, random=Draws(ZeroDivisionError))
    with pytest.raises(ValueError, match="from 0 to 1"):
        timer.call_every(1, int, jitter=1, random=Draws(2.0))
    assert timer.stats()[:3] == (0, 0, 0)


def test_in_virtual_time_a_failing_source_is_raised_and_the_task_goes_on(ran):
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


def test_no_jitter_draws_nothing(ran):
    timer = ManualTimer()
    source = Draws(0.5)
    task = timer.call_every(0.1, times_of(timer, ran), jitter=0, random=source)
    timer.advance(0.3)
    assert (ran, source.count) == ([100, 200, 300], 0)
    task.cancel()


@pytest.mark.parametrize("source", [5, "random", random.random, object()])
def test_what_draws_has_to_have_a_method_random(source):
    timer = ManualTimer()
    with pytest.raises(TypeError, match="must have a method random"):
        timer.call_every(1, int, jitter=1, random=source)
    assert len(timer) == 0


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
            timer.call_every(1, print, jitter=1)    # what another thread may do at this moment

random.SystemRandom = Source
timer.call_every(1, print, jitter=1)
print(len(ManualTimer().load(timer.dump()).tasks))
"""


def test_two_that_are_the_first_at_once_draw_from_one_source():
    """By which dump() knows that it is the system's, which cannot be written."""
    assert output_of("-c", FIRST_OF_TWO).split() == ["2"]
