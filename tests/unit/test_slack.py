"""slack: a task may be put off by so much, and is, to the most aligned tick; never beyond, and never early."""

import contextvars

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwheel import ManualTimer
from sampling import search_settings


def most_aligned(first, last):
    """The dumb way: the multiple of the highest power of two of which there is one in between."""
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
        (1.024, 0.9, 1024),  # aligned already
        (0.999, 0.001, 1000),
        (0.0005, 0.0002, 1),  # no whole ms in between but the one that it is rounded up to
        (0.0005, 0.0014, 1),  # 2 would be later than 1.9
        (0.0005, 0.0015, 2),
        (0, 5, 0),  # due at once
        (-3, 10, -3000),
        (3_000_000_000, 200_000_000, most_aligned(3 * 10**12, 32 * 10**11)),
    ],
)
def test_the_deadline_is_the_most_aligned_ms_within_the_slack(delay, slack, deadline_ms):
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
def test_it_is_the_tick_that_the_dumb_way_finds(tick_ms, start_ms, delay_us, slack_us, is_moved):
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


def test_call_at_has_the_same():
    timer = ManualTimer(start_ms=5000)
    assert timer.call_at(6.0, int, slack=0.2).deadline_ms == 6144
    assert timer.call_at(4.0, int, slack=9.0).deadline_ms == 4000  # that is over: at once
    timer.close()


def test_those_who_have_the_same_slack_meet_at_ticks_that_are_half_of_it_apart():
    timer = ManualTimer()
    deadlines = {timer.call_later(60 + i / 1000, int, slack=1.0).deadline_ms for i in range(5000)}
    assert all(deadline % 512 == 0 for deadline in deadlines)
    assert len(deadlines) <= 5000 / 512 + 2
    timer.close()


def test_order_is_that_of_the_deadlines_that_they_were_moved_to(ran):
    timer = ManualTimer()
    timer.call_later(0.010, ran.append, "put off to 16", slack=0.010)
    timer.call_later(0.016, ran.append, "16, added later")
    timer.call_later(0.015, ran.append, "15")
    timer.call_later(0.009, ran.append, "put off to 16, too", slack=0.010)
    assert [task.args[0] for task in timer.pending()] == [
        "15",
        "put off to 16",
        "16, added later",
        "put off to 16, too",
    ]
    timer.advance(1)
    assert ran == ["15", "put off to 16", "16, added later", "put off to 16, too"]


def test_reschedule_keeps_the_slack_and_cancel_releases_it():
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


def test_a_slack_is_no_part_of_the_lateness(ran):
    timer = ManualTimer()
    timer.call_later(0.010, ran.append, 1, slack=0.050)
    timer.advance(1)
    assert timer.stats().lateness.max == 0


def test_call_every_puts_each_run_off_and_does_not_drift(ran):
    timer = ManualTimer()
    task = timer.call_every(0.1, lambda: ran.append(round(timer.time() * 1000)), slack=0.03)
    timer.advance(1.05)
    assert ran == [most_aligned(100 * i, 100 * i + 30) for i in range(1, 11)]
    assert task.pending and task.delay_ms == 100
    task.cancel()


def test_without_a_slack_it_is_the_plain_task():
    timer = ManualTimer()
    plain = timer.call_later(1, int)
    assert type(timer.call_later(1, int, slack=0)) is type(plain)
    assert type(timer.call_later(1, int, slack=1)) is not type(plain)
    timer.close()


def test_keywords_context_and_arguments_go_together(ran):
    timer = ManualTimer()
    variable = contextvars.ContextVar("variable", default="empty")
    context = contextvars.copy_context()
    context.run(variable.set, "brought")
    timer.call_later(1, lambda *args: ran.append((variable.get(), args)), 1, [2], slack=0.5, context=context)
    timer.advance(2)
    assert ran == [("brought", (1, [2]))]


def test_close_returns_it_with_all_that_it_had(ran):
    timer = ManualTimer()
    task = timer.call_later(1, ran.append, "ran", slack=0.5)
    assert timer.close() == [task]
    assert task.cancelled
    task.run()
    assert ran == ["ran"]


def test_where_the_slack_ends_beyond_64_bits_nothing_is_added_or_moved():
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
