"""A wheel of a million buckets: allocated outside the lock, and MemoryError where memory is short."""

import sys
import threading
import time

from hwheel import ManualTimer

LARGE = 2**20


def longest_wait(timer, thread):
    """Return the longest wait for the timer's lock while the thread ran, and the thread's run time."""
    start = before = time.perf_counter()
    longest = 0.0
    thread.start()
    while thread.is_alive():
        timer.stats()
        now = time.perf_counter()
        longest, before = max(longest, now - before), now
    return longest, time.perf_counter() - start


def test_level_is_allocated_outside_the_lock():
    # A level of 128 MB is written; the lock is held for a fraction of that time.
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        shares = []
        for _ in range(5):
            timer = ManualTimer(wheel_size=LARGE)
            thread = threading.Thread(target=timer.call_later, args=(LARGE * 2 / 1000, int))
            longest, whole = longest_wait(timer, thread)
            assert timer.stats().levels == 2
            timer.close()
            shares.append(longest / whole)
    finally:
        sys.setswitchinterval(before)
    assert min(shares) < 0.4
