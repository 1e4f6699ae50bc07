"""A batch that many threads extend, cancel and move while it falls due: each index has one end."""

import time
from array import array
from collections import Counter

import pytest

import hwheel_core
from hwheel import ManualTimer, TimerClosed
from sampling import scaled, seeded_random
from threads import errors_in_threads

THREADS = 4
FAR_OFF_MS = 3_600_000


@pytest.mark.parametrize("far_off", [0, 0.1])
def test_each_index_has_one_end(make_timer, executor, many_switches, soak_seconds, far_off):
    """far_off: so many wait until close(). Without them the batch is over again and again in between."""
    ran, ranges, cancelled, reported = [], [], [], []
    timer = make_timer(executor=executor, on_error=lambda source, error: reported.append(error))
    end = time.monotonic() + soak_seconds / 2

    def on_due(indices):
        ran.extend(indices)
        if indices[0] % 10 == 0:
            ranges.append(batch.extend(array("q", [3]), on_due))

    batch = timer.call_many(array("q"), on_due)

    def work(seed):
        dice = seeded_random(seed)
        while time.monotonic() < end:
            count = dice.choice([0, 1, 1, 5, 64, 300, 6000])
            delays_ms = [FAR_OFF_MS if dice.random() < far_off else dice.randrange(8) for _ in range(count)]
            ranges.append(new := batch.extend(array("q", delays_ms), on_due))
            assert len(new) == count
            some = array("q", [dice.randrange(max(0, new.start - 300), new.stop) for _ in range(min(new.stop, 5))])
            if dice.random() < 0.3:
                cancelled.append(batch.cancel(some))
            elif dice.random() < 0.3:
                assert batch.reschedule(some, dice.randrange(5)) <= len(some)
            elif dice.random() < 0.1:
                cancelled.append(batch.cancel())
            else:
                assert len(batch.indices()) <= len(batch)
            if hwheel_core.DEBUG:
                hwheel_core.debug_check(timer)

    errors = errors_in_threads([lambda seed=seed: work(seed) for seed in range(THREADS)])
    returned = timer.close()
    if hasattr(executor, "shutdown"):
        executor.shutdown(wait=True)
    assert errors == []
    assert [error for error in reported if not isinstance(error, TimerClosed)] == []  # a callback came after close()
    indices = [index for one in ranges for index in one]
    assert sorted(indices) == list(range(len(batch)))
    left = list(batch.indices())
    assert returned == ([batch] if left else [])
    assert max(Counter(ran + left).values(), default=0) <= 1
    assert len(ran) + sum(cancelled) + len(left) == len(batch)
    stats = timer.stats()
    assert (stats.added, stats.expired, stats.cancelled) == (len(batch), len(ran), sum(cancelled))
    assert (batch.callback is None) == (not left)


def test_of_two_that_extend_at_once_each_has_indices_of_its_own(many_switches):
    for _ in range(scaled(100)):
        timer, ran, ranges = ManualTimer(), [], []
        batch = timer.call_many(array("q"), ran.extend)

        def extend(count, timer=timer, ran=ran, ranges=ranges, batch=batch):
            for _ in range(3):
                ranges.append(batch.extend(array("q", range(count)), ran.extend))

        assert errors_in_threads([lambda: extend(5000), lambda: extend(7), lambda: extend(9000)]) == []
        if hwheel_core.DEBUG:
            hwheel_core.debug_check(timer)
        assert sorted(index for one in ranges for index in one) == list(range(len(batch)))
        due_ms = {index: delay_ms for one in ranges for delay_ms, index in enumerate(one)}
        timer.advance(10)
        assert ran == sorted(due_ms, key=lambda index: (due_ms[index], index))


def test_close_meets_an_extend(many_switches):
    """All of what it adds is returned, or it says that the timer is closed."""
    for _ in range(scaled(100)):
        timer, closed, ranges = ManualTimer(), [], []
        batch = timer.call_many(array("q", [5]), print)

        def extend(batch=batch, closed=closed, ranges=ranges):
            try:
                while True:
                    ranges.append(batch.extend(array("q", [7] * 5000)))
            except TimerClosed as error:
                closed.append(error)

        returned = []

        def close(timer=timer, ranges=ranges, returned=returned):
            while not ranges:
                time.sleep(0)
            returned.extend(timer.close())

        assert errors_in_threads([extend, close]) == []
        assert closed and returned == [batch]
        assert sorted(batch.indices()) == list(range(len(batch))) == list(range(1 + 5000 * len(ranges)))
        assert batch.callback is print
