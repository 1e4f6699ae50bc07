"""max_pending holds, whoever adds at the same time; what is refused changes nothing."""

from array import array
from functools import partial

import pytest

from hwheel import TimerFull, TimerTask
from sampling import seeded_random
from threads import errors_in_threads

LIMIT = 1000


def in_threads(count, function):
    assert errors_in_threads([partial(function, number) for number in range(count)]) == []


def test_four_threads_together_get_exactly_max_pending(make_timer, many_switches):
    timer = make_timer(max_pending=LIMIT)
    added, refused = [], []

    def add(number):
        for _ in range(LIMIT):
            try:
                added.append(timer.call_later(3600, print))
            except TimerFull:
                refused.append(number)

    in_threads(4, add)
    assert len(added) == LIMIT
    assert len(refused) == 3 * LIMIT
    assert len(timer) == timer.stats().added == LIMIT
    assert added[0].cancel()
    timer.call_later(3600, print)
    with pytest.raises(TimerFull):
        timer.call_later(3600, print)
    assert len(timer.close()) == LIMIT


def test_bulk_adds_are_all_or_nothing_also_under_threads(make_timer, many_switches):
    timer = make_timer(max_pending=LIMIT)
    lengths = []

    def add(number):
        dice = seeded_random(number)
        for _ in range(200):
            length = dice.randrange(1, 300)
            try:
                batch = timer.call_many(array("q", [3_600_000] * length), print)
            except TimerFull:
                continue
            lengths.append(length)
            assert len(batch) == batch.pending == length

    in_threads(4, add)
    assert sum(lengths) == len(timer) == timer.stats().added <= LIMIT


def test_adding_and_cancelling_never_goes_beyond_the_limit(make_timer, many_switches):
    timer = make_timer(max_pending=100)
    too_many = []

    def churn(number):
        mine = []
        for _ in range(3000):
            try:
                mine.append(timer.call_later(3600, print))
            except TimerFull:
                if mine:
                    assert mine.pop().cancel()
            if len(timer) > 100:
                too_many.append(len(timer))

    in_threads(4, churn)
    assert too_many == []
    stats = timer.stats()
    assert stats.added == stats.cancelled + stats.pending


def test_a_refused_task_is_as_new(make_timer):
    timer = make_timer(max_pending=1)
    other = make_timer("other")
    kept = timer.call_later(3600, print)
    refused = TimerTask(3_600_000, print)
    with pytest.raises(TimerFull):
        timer.add(refused)
    assert (refused.pending, refused.expired, refused.cancelled, refused.deadline_ms) == (False, False, False, None)
    other.add(refused)
    assert refused.pending and kept.pending
