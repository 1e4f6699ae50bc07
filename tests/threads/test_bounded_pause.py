"""A cascade of very many entries gives way to an add in between: it holds the lock for a slice at a time."""

import threading
from array import array

ENTRIES = 1_500_000


def adds_during_one_cascade(make_timer):
    """Adds while one bucket of level 2 with all entries is cascaded in another thread; returns how many got through."""
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


def test_adds_go_through_while_a_large_bucket_cascades(make_timer):
    # A cascade is over in some 50 ms. A busy machine may not let this thread run in that time, at first.
    assert any(adds_during_one_cascade(make_timer) for _ in range(60)), "no add got through while a bucket cascaded"
