"""Long operations and slow callbacks block only the executor that they run on."""

import contextlib
import threading
import time
from array import array

from hwheel import TimerClosed

ENTRIES = 1_500_000


def adds_during_one_cascade(make_timer):
    """Add tasks while another thread cascades one large bucket. Return how many adds succeeded during the cascade."""
    now_ms = 0
    timer = make_timer(wheel_size=500, clock=lambda: now_ms, reaper=False, executor="inline")
    timer.call_many(array("q", [1000 + i % 500 for i in range(ENTRIES)]), len)
    now_ms = 1000
    cascade = threading.Thread(target=timer.advance_clock, args=(0,))
    cascade.start()
    got_through = 0
    while (moved := timer.stats().cascaded) < ENTRIES:
        timer.call_later(3600, int).cancel()
        if 0 < moved and timer.stats().cascaded < ENTRIES:
            got_through += 1
    cascade.join()
    timer.close()
    return got_through


def test_adds_proceed_while_a_large_bucket_cascades(make_timer):
    # A cascade takes about 50 ms. On a busy machine this thread may not run in that time, so try several times.
    assert any(adds_during_one_cascade(make_timer) for _ in range(60)), "no add got through while a bucket cascaded"


def test_inline_callbacks_that_add_immediately_do_not_starve_other_threads(make_timer):
    timer = make_timer(executor="inline")

    def add_the_next():
        with contextlib.suppress(TimerClosed):
            timer.call_later(0, add_the_next)

    add_the_next()
    add_the_next()
    began = time.monotonic()
    for _ in range(40):
        time.sleep(0.001)
    took = time.monotonic() - began
    timer.close()
    assert took < 10, f"40 ms took {took} s"


PATIENCE_S = 60


@contextlib.contextmanager
def blocked_callback(timer):
    """Block a callback of the timer until the end of the block."""
    release, entered = threading.Event(), threading.Event()
    timer.call_later(0, lambda: (entered.set(), release.wait(PATIENCE_S)))
    try:
        assert entered.wait(PATIENCE_S)
        yield
    finally:
        release.set()


def test_slow_callback_does_not_delay_another_timer(make_timer, executor):
    slow, other = make_timer("slow", executor=executor), make_timer("other")
    done = threading.Event()
    with blocked_callback(slow):
        other.call_later(0.001, done.set)
        assert done.wait(PATIENCE_S)


def test_expired_task_behind_a_slow_callback_can_be_cancelled_and_rescheduled(make_timer, eventually):
    timer = make_timer()
    done = threading.Event()
    with blocked_callback(timer):
        ran = []
        due = timer.call_later(0.001, ran.append, "cancelled")
        moved = timer.call_later(0.001, ran.append, "moved")
        kept = timer.call_later(0.001, ran.append, "kept")
        eventually(lambda: timer.time() * 1000 > kept.deadline_ms + 5)
        time.sleep(0.05)  # until the reaper has taken them out of the wheel
        assert due.pending and kept.pending and moved.pending
        assert due.cancel() is True
        assert due.cancel() is False
        assert moved.reschedule(0.01) is True
        timer.call_later(0.1, done.set)
    assert done.wait(PATIENCE_S)
    assert ran == ["kept", "moved"]


def test_reaper_cascades_while_a_callback_blocks(make_timer, eventually):
    timer = make_timer(wheel_size=2)
    with blocked_callback(timer):
        before = timer.stats().cascaded
        timer.call_later(0.1, int)
        eventually(lambda: timer.stats().cascaded > before)


def test_slow_callback_in_a_pool_does_not_block_the_pool(make_timer, pool):
    timer = make_timer(executor=pool)
    done = threading.Event()
    with blocked_callback(timer):
        timer.call_later(0.001, done.set)
        assert done.wait(PATIENCE_S)
