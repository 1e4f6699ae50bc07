"""A cascade of very many entries lets others at the lock in between."""

import time
from array import array

ENTRIES = 600_000


def adds_during_one_cascade(timer):
    """Adds while one bucket of level 2 with all entries is cascaded by the reaper; returns how many got through."""
    before = timer.stats().cascaded
    now_ms = int(timer.time() * 1000)
    bucket_ms = (now_ms // 500 + 2) * 500                       # level 2 has buckets of 500 ms
    delays_ms = array("q", [bucket_ms + 50 + i % 150 - now_ms for i in range(ENTRIES)])
    batch = timer.call_many(delays_ms, len)
    # The adding takes its time, and only a clock that has not moved much by then has put them all into one bucket.
    in_one_bucket = int(timer.time() * 1000) - now_ms < 300
    got_through = 0
    while in_one_bucket and (moved := timer.stats().cascaded - before) < ENTRIES:
        timer.call_later(3600, int).cancel()
        if 0 < moved and timer.stats().cascaded - before < ENTRIES:
            got_through += 1
        if not moved:
            time.sleep(0.0005)
    batch.cancel()
    return got_through


def test_adds_go_through_while_a_large_bucket_cascades(make_timer):
    timer = make_timer(wheel_size=500)
    for _ in range(20):                     # a busy machine may not let this thread run at the right time
        if adds_during_one_cascade(timer):
            return
    raise AssertionError("no add got through while the reaper cascaded")
