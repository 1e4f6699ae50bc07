"""Memory does not grow over many rounds of use. tracemalloc also sees the allocations of the core."""

import gc
import threading
import tracemalloc
from array import array

import pytest

from hwheel import DelayQueue, ManualTimer, SystemTimer, TimerTask, TimingWheel

ROUNDS = 12
ALLOWED_GROWTH = 50_000  # bytes, less than one leaked task for each step of a round


def assert_no_growth(one_round):
    """Call one_round() until caches are warm, and fail if more rounds use more memory."""
    tracer = threading.gettrace()
    threading.settrace(None)  # the tracer of coverage.py allocates memory for each thread
    tracemalloc.start()
    try:
        for _ in range(3):
            one_round()
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(ROUNDS):
            one_round()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        threading.settrace(tracer)
    assert after - before < ALLOWED_GROWTH


def test_adding_and_cancelling(make_timer):
    timer = make_timer()

    def one_round():
        for i in range(1000):
            timer.call_later(60 + i, print, i, [i]).cancel()
            timer.add(TimerTask(5000, print, i, end=i)).cancel()
            task = timer.call_every(60, print, i, slack=1, jitter=1)
            task.reschedule(10_000)
            task.cancel()
            task = timer.call_later(60, print, i, [i], slack=1, max_lateness=1)
            task.reschedule(10_000)
            task.cancel()

    assert_no_growth(one_round)


def test_adding_and_cancelling_in_bulk(make_timer):
    timer = make_timer()
    delays = array("q", range(60_000, 65_000))

    def one_round():
        batch = timer.call_many(delays, print)
        assert batch.cancel(array("q", range(0, 5000, 2))) == 2500
        assert batch.cancel() == 2500

    assert_no_growth(one_round)


def test_expiring_in_virtual_time():
    timer = ManualTimer(wheel_size=8)

    def one_round():
        for i in range(1000):
            timer.call_later(i / 100, int, i)
        timer.call_many(array("q", range(5000)), len)
        timer.advance(20)
        assert len(timer) == 0

    assert_no_growth(one_round)


def test_expiring_on_threads(make_timer):
    timer = make_timer()
    # Create the second level now. A wheel that falls more than 0.5 s behind creates it, which on a busy machine could
    # happen in any round.
    timer.call_later(100, int).cancel()

    def one_round():
        done = threading.Event()
        for i in range(500):
            timer.call_later(i / 100_000, int, i)
        timer.call_many(array("q", [1, 2] * 500), len)
        timer.call_later(0.02, done.set)
        assert done.wait(60)

    assert_no_growth(one_round)


def test_failing_callbacks():
    timer = ManualTimer(on_error=lambda task, error: None)

    def one_round():
        for _ in range(500):
            timer.call_later(0.001, lambda: 1 / 0)
        timer.advance(0.001)

    assert_no_growth(one_round)


def test_refused_adds(make_timer):
    timer = make_timer()
    full = ManualTimer(max_pending=1)
    full.call_later(1, print)

    def one_round():
        for _ in range(500):
            for refused in (
                lambda: full.call_later(1, print),
                lambda: full.call_many(array("q", [1] * 100), print),
                lambda: full.add(TimerTask(1, print)),
                lambda: timer.call_later(float("nan"), print),
                lambda: timer.call_many(array("q", [2**63 - 1]), print),
            ):
                with pytest.raises((RuntimeError, ValueError, OverflowError)):
                    refused()

    assert_no_growth(one_round)


def use_wheel():
    wheel = TimingWheel(wheel_size=2)
    for i in range(40):
        wheel.add(TimerTask(5), 2**i)
    wheel.snapshot()
    wheel.overflow_wheel.snapshot()
    wheel.poll(5000)


def use_system_timer():
    with SystemTimer() as timer:
        for i in range(100):
            timer.call_later(10**i if i < 10 else i, print)
        timer.call_many(array("q", [10**9] * 100), print)


def use_queue():
    q = DelayQueue(timer=ManualTimer())
    for level in range(4):
        q.put(level, 64**level)
    q.drain()


def use_batch():
    """Extend a batch block by block. The first seven blocks end while the batch runs, the others at its cancel."""
    timer = ManualTimer()
    run = len
    batch = timer.call_many(array("q", [5] * 100), run)
    for number in range(1, 15):
        batch.extend(array("q", [5 if number < 7 else 50] * 100 * number), run)
    timer.advance(0.005)
    assert batch.pending == sum(100 * number for number in range(7, 15))
    batch.cancel()
    timer.close()


@pytest.mark.parametrize("use", [use_wheel, use_system_timer, use_queue, use_batch])
def test_creating_and_dropping_timers_wheels_queues_and_batches(use):
    # One level takes a kilobyte, its delay queue half of one, and the smallest block of a batch five.
    assert_no_growth(lambda: [use() for _ in range(20)])


def test_a_long_lived_group():
    timer = ManualTimer()
    group = timer.group()
    group.call_every(1e6, int)

    def one_round():
        for i in range(500):
            group.call_later(0.01, int, i)
            group.call_later(5, int, i, i).cancel()
            group.call_every(5, int, i).cancel()
        timer.advance(1)
        for i in range(500):
            short = timer.group()
            short.call_later(100 + i, int, short)
            short.close()
            timer.group().call_later(0.5, int, i)
        timer.advance(1)

    assert_no_growth(one_round)
    assert len(group) == len(timer) == 1
