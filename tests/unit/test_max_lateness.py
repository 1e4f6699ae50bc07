"""max_lateness: what would begin later than that is not run, but counted and told; all else runs."""

import pytest

from hwheel import ManualTimer


@pytest.fixture
def late():
    """late(call, *args, **more): what becomes of a call that begins 7 ms after its deadline: (the timer, the task)."""

    def play(ran, max_lateness, **options):
        timer = ManualTimer(tick_ms=10, **options)
        task = timer.call_later(0.003, ran.append, "ran", max_lateness=max_lateness)
        timer.advance(0.010)
        return timer, task

    return play


@pytest.mark.parametrize(("max_lateness", "runs"), [(0.006, False), (0.006999, False), (0.007, True), (1000, True)])
def test_it_runs_up_to_its_most_lateness_and_not_beyond(late, ran, max_lateness, runs):
    timer, task = late(ran, max_lateness)
    assert ran == ["ran"] * runs
    assert (task.missed, task.expired, task.pending, task.cancelled) == (not runs, True, False, False)
    stats = timer.stats()
    assert (stats.added, stats.expired, stats.missed, stats.pending) == (1, 1, not runs, 0)
    assert (task.callback, task.args) == (None, None)


def test_who_asks_is_told_and_may_look_at_it_and_run_it_after_all(late, ran):
    told = []
    timer, task = late(ran, 0.001, on_missed=lambda task: told.append((task, task.callback, task.args, task.missed)))
    assert told == [(task, ran.append, ("ran",), True)]
    assert ran == []
    timer, task = late(ran, 0.001, on_missed=lambda task: task.run())
    assert ran == ["ran"]
    assert timer.stats().missed == 1


def test_what_on_missed_raises_is_as_if_the_callback_had_raised_it(late, ran):
    reported = []
    timer, task = late(
        ran, 0.001, on_missed=lambda task: 1 / 0, on_error=lambda task, error: reported.append((task, type(error)))
    )
    assert reported == [(task, ZeroDivisionError)]
    assert task.callback is None
    with pytest.raises(ZeroDivisionError):
        late(ran, 0.001, on_missed=lambda task: 1 / 0)


def test_a_time_that_is_over_when_it_is_added_is_too_late_too(ran):
    timer = ManualTimer(start_ms=60_000)
    timer.call_at(50, ran.append, "too late", max_lateness=9.999)
    timer.call_at(50, ran.append, "late", max_lateness=10)
    timer.call_later(-5, ran.append, "too late", max_lateness=4)
    timer.advance(0)
    assert ran == ["late"]
    assert timer.stats().missed == 2


def test_late_is_counted_from_the_deadline_that_slack_has_moved(ran):
    timer = ManualTimer(tick_ms=10)
    timer.call_later(0.003, ran.append, "put off to 80", slack=0.080, max_lateness=0.001)
    timer.advance(1)
    assert ran == ["put off to 80"]


def test_reschedule_keeps_it(ran):
    timer = ManualTimer(tick_ms=10)
    task = timer.call_later(0.010, ran.append, "ran", max_lateness=0.001)
    assert task.reschedule(0.023)
    timer.advance(1)
    assert ran == [] and task.missed


def test_call_every_goes_on_with_its_next_time(ran):
    timer = ManualTimer(tick_ms=10)
    seen = []
    task = timer.call_every(
        0.015, lambda: ran.append(round(timer.time() * 1000)), missed_ticks="burst", max_lateness=0.004
    )
    while timer.time() < 0.1:
        timer.advance(0.01)
        seen.append((task.missed, task.pending))
    # 15 30 45 60 75 90 fall due at 20 30 50 60 80 90
    assert ran == [30, 60, 90]
    assert timer.stats().missed == 3
    assert [missed for missed, _ in seen] == [False, True, False, False, True, False, False, True, False, False]
    assert all(pending for _, pending in seen)
    task.cancel()


def test_cancelled_in_on_missed_a_call_every_ends(ran):
    timer = ManualTimer(tick_ms=10, on_missed=lambda task: ran.append(task.cancel()))
    task = timer.call_every(0.015, ran.append, "ran", max_lateness=0.004)
    timer.advance(1)
    assert ran == [True]
    assert (task.cancelled, task.callback, len(timer)) == (True, None, 0)


def test_no_task_is_missed_that_has_no_such_limit(ran):
    timer = ManualTimer(start_ms=10**9)
    tasks = [timer.call_at(0, ran.append, 1), timer.call_at(0, ran.append, 2, slack=5)]
    timer.advance(0)
    assert ran == [1, 2]
    assert not any(task.missed for task in tasks)
    assert timer.stats().missed == 0


def test_a_limit_beyond_all_time_is_none(ran):
    timer = ManualTimer(start_ms=2**62)
    timer.call_at(0, ran.append, 1, max_lateness=2**53)
    timer.advance(0)
    assert ran == [1]


def test_close_that_runs_the_rest_runs_what_is_early_and_not_what_is_too_late(ran):
    timer = ManualTimer(start_ms=1000)
    timer.call_later(5, ran.append, "early", max_lateness=0.001)
    timer.call_at(0, ran.append, "too late", max_lateness=0.5)
    assert timer.close(run_pending=True) == []
    assert ran == ["early"]
    assert timer.stats().missed == 1


def test_on_missed_has_to_be_callable():
    with pytest.raises(TypeError, match="on_missed must be callable"):
        ManualTimer(on_missed=5)
