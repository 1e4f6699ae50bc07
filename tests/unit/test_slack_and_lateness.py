"""slack and max_lateness of a single timer."""

import contextvars

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwheel import ManualTimer
from sampling import search_settings

# --- slack: a task may be postponed to the most aligned tick, never beyond its slack and never early ------------------


def most_aligned(first, last):
    """Search for the multiple of the highest power of two between two ticks."""
    powers = (2**exponent for exponent in range(63, -1, -1))
    return next(last // power * power for power in powers if last // power * power >= first)


@pytest.mark.parametrize(
    ("delay", "slack", "deadline_ms"),
    [
        (1.000, 0.0, 1000),
        (1.000, 0.007, 1000),
        (1.000, 0.023, 1008),
        (1.000, 0.024, 1024),
        (1.000, 5.0, 4096),
        (1.001, 0.001, 1002),
        (1.024, 0.9, 1024),  # already aligned
        (0.999, 0.001, 1000),
        (0.0005, 0.0002, 1),  # only the rounded millisecond is within the slack
        (0.0005, 0.0014, 1),  # 2 would be later than 1.9
        (0.0005, 0.0015, 2),
        (0, 5, 0),  # due at once
        (-3, 10, -3000),
        (3_000_000_000, 200_000_000, most_aligned(3 * 10**12, 32 * 10**11)),
    ],
)
def test_deadline_is_the_most_aligned_millisecond_within_the_slack(delay, slack, deadline_ms):
    timer = ManualTimer()
    task = timer.call_later(delay, int, slack=slack)
    assert task.deadline_ms == deadline_ms
    task.cancel()


@search_settings(400)
@given(
    tick_ms=st.sampled_from([1, 1, 2, 7, 10, 64]),
    start_ms=st.integers(0, 3000),
    delay_us=st.integers(1, 300_000),
    slack_us=st.integers(0, 600_000),
    is_moved=st.booleans(),
)
def test_deadline_agrees_with_a_search(tick_ms, start_ms, delay_us, slack_us, is_moved):
    timer = ManualTimer(tick_ms=tick_ms, start_ms=start_ms, wheel_size=8)
    ran = []
    if is_moved:
        task = timer.call_later(777, lambda: ran.append(timer.time()), slack=slack_us / 1e6)
        task.reschedule(delay_us / 1e6)
    else:
        task = timer.call_later(delay_us / 1e6, lambda: ran.append(timer.time()), slack=slack_us / 1e6)
    asked_us = start_ms * 1000 + delay_us
    asked_ms = -(-asked_us // 1000)
    first, last = -(-asked_ms // tick_ms), (asked_us + slack_us) // 1000 // tick_ms
    expected_ms = most_aligned(first, last) * tick_ms if last > first else asked_ms
    assert task.deadline_ms == expected_ms
    assert task.delay_ms == -(-delay_us // 1000)
    runs_ms = -(-expected_ms // tick_ms) * tick_ms
    timer.advance_to((runs_ms - 1) / 1000)
    assert ran == []
    timer.advance_to(runs_ms / 1000)
    assert ran == [runs_ms / 1000]
    assert runs_ms * 1000 >= asked_us
    assert runs_ms * 1000 <= max(asked_us + slack_us, -(-asked_ms // tick_ms) * tick_ms * 1000)


def test_slack_of_call_at():
    timer = ManualTimer(start_ms=5000)
    assert timer.call_at(6.0, int, slack=0.2).deadline_ms == 6144
    assert timer.call_at(4.0, int, slack=9.0).deadline_ms == 4000  # already expired
    timer.close()


def test_order_is_by_the_postponed_deadline(ran):
    timer = ManualTimer()
    timer.call_later(0.010, ran.append, "postponed to 16", slack=0.010)
    timer.call_later(0.016, ran.append, "16, added later")
    timer.call_later(0.015, ran.append, "15")
    timer.call_later(0.009, ran.append, "second to 16", slack=0.010)
    assert [task.args[0] for task in timer.pending()] == [
        "15",
        "postponed to 16",
        "16, added later",
        "second to 16",
    ]
    timer.advance(1)
    assert ran == ["15", "postponed to 16", "16, added later", "second to 16"]


def test_reschedule_keeps_the_slack_and_cancel_releases_the_arguments():
    timer = ManualTimer()
    argument = {"object"}
    task = timer.call_later(1.0, print, argument, slack=0.1)
    assert task.deadline_ms == 1024
    assert task.reschedule(2.0)
    assert (task.deadline_ms, task.delay_ms, len(timer)) == (2048, 2000, 1)
    assert task.reschedule(0.001)
    assert task.deadline_ms == 64
    assert (task.callback, task.args) == (print, (argument,))
    assert task.cancel()
    assert (task.callback, task.args, task.cancelled, len(timer)) == (None, None, True, 0)
    assert not task.reschedule(1)


def test_slack_is_not_lateness(ran):
    timer = ManualTimer()
    timer.call_later(0.010, ran.append, 1, slack=0.050)
    timer.advance(1)
    assert timer.stats().lateness.max == 0


def test_slack_of_call_every_does_not_drift(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, lambda: ran.append(round(timer.time() * 1000)), slack=0.03)
    timer.advance(1.05)
    assert ran == [most_aligned(100 * i, 100 * i + 30) for i in range(1, 11)]
    assert task.pending and task.delay_ms == 100
    task.cancel()


def test_zero_slack_gives_a_plain_task():
    timer = ManualTimer()
    plain = timer.call_later(1, int)
    assert type(timer.call_later(1, int, slack=0)) is type(plain)
    assert type(timer.call_later(1, int, slack=1)) is not type(plain)
    timer.close()


def test_slack_with_context_and_arguments(ran):
    timer = ManualTimer()
    variable = contextvars.ContextVar("variable", default="empty")
    context = contextvars.copy_context()
    context.run(variable.set, "brought")
    timer.call_later(1, lambda *args: ran.append((variable.get(), args)), 1, [2], slack=0.5, context=context)
    timer.advance(2)
    assert ran == [("brought", (1, [2]))]


def test_slack_beyond_64_bits_is_an_error():
    timer = ManualTimer()
    with pytest.raises(OverflowError, match="slack"):
        timer.call_later(2**53, int, slack=2**53)
    assert timer.stats()[:3] == (0, 0, 0)
    task = timer.call_later(1, int, slack=2**53)
    before = task.deadline_ms
    with pytest.raises(OverflowError, match="slack"):
        task.reschedule(2**53)
    assert (task.deadline_ms, task.pending) == (before, True)
    timer.close()


# --- max_lateness: a callback that would start later is skipped and counted as missed ---------------------------------


@pytest.fixture
def late():
    """Run a task 7 ms after its deadline and return (timer, task)."""

    def play(ran, max_lateness, **options):
        timer = ManualTimer(tick_ms=10, **options)
        task = timer.call_later(0.003, ran.append, "ran", max_lateness=max_lateness)
        timer.advance(0.010)
        return timer, task

    return play


@pytest.mark.parametrize(("max_lateness", "runs"), [(0.006, False), (0.006999, False), (0.007, True), (1000, True)])
def test_callback_runs_up_to_its_max_lateness(late, ran, max_lateness, runs):
    timer, task = late(ran, max_lateness)
    assert ran == ["ran"] * runs
    assert (task.missed, task.expired, task.pending, task.cancelled) == (not runs, True, False, False)
    stats = timer.stats()
    assert (stats.added, stats.expired, stats.missed, stats.pending) == (1, 1, not runs, 0)
    assert (task.callback, task.args) == (None, None)


def test_on_missed_receives_the_task_and_can_run_it(late, ran):
    missed = []
    timer, task = late(ran, 0.001, on_missed=lambda task: missed.append((task, task.callback, task.args, task.missed)))
    assert missed == [(task, ran.append, ("ran",), True)]
    assert ran == []
    timer, task = late(ran, 0.001, on_missed=lambda task: task.run())
    assert ran == ["ran"]
    assert timer.stats().missed == 1


def test_exception_in_on_missed_goes_to_on_error(late, ran):
    reported = []
    timer, task = late(
        ran, 0.001, on_missed=lambda task: 1 / 0, on_error=lambda task, error: reported.append((task, type(error)))
    )
    assert reported == [(task, ZeroDivisionError)]
    assert task.callback is None
    with pytest.raises(ZeroDivisionError):
        late(ran, 0.001, on_missed=lambda task: 1 / 0)


def test_deadline_in_the_past_can_be_missed(ran):
    timer = ManualTimer(start_ms=60_000)
    timer.call_at(50, ran.append, "too late", max_lateness=9.999)
    timer.call_at(50, ran.append, "late", max_lateness=10)
    timer.call_later(-5, ran.append, "too late", max_lateness=4)
    timer.advance(0)
    assert ran == ["late"]
    assert timer.stats().missed == 2


def test_lateness_counts_from_the_postponed_deadline(ran):
    timer = ManualTimer(tick_ms=10)
    timer.call_later(0.003, ran.append, "postponed to 80", slack=0.080, max_lateness=0.001)
    timer.advance(1)
    assert ran == ["postponed to 80"]


def test_reschedule_keeps_max_lateness(ran):
    timer = ManualTimer(tick_ms=10)
    task = timer.call_later(0.010, ran.append, "ran", max_lateness=0.001)
    assert task.reschedule(0.023)
    timer.advance(1)
    assert ran == [] and task.missed


def test_call_every_continues_after_a_missed_run(ran):
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


def test_cancel_in_on_missed_ends_call_every(ran):
    timer = ManualTimer(tick_ms=10, on_missed=lambda task: ran.append(task.cancel()))
    task = timer.call_every(0.015, ran.append, "ran", max_lateness=0.004)
    timer.advance(1)
    assert ran == [True]
    assert (task.cancelled, task.callback, len(timer)) == (True, None, 0)


def test_task_without_max_lateness_is_never_missed(ran):
    timer = ManualTimer(start_ms=10**9)
    tasks = [timer.call_at(0, ran.append, 1), timer.call_at(0, ran.append, 2, slack=5)]
    timer.advance(0)
    assert ran == [1, 2]
    assert not any(task.missed for task in tasks)
    assert timer.stats().missed == 0


def test_close_with_run_pending_skips_tasks_that_are_too_late(ran):
    timer = ManualTimer(start_ms=1000)
    timer.call_later(5, ran.append, "early", max_lateness=0.001)
    timer.call_at(0, ran.append, "too late", max_lateness=0.5)
    assert timer.close(run_pending=True) == []
    assert ran == ["early"]
    assert timer.stats().missed == 1
