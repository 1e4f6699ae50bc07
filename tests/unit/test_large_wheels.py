"""A wheel of a million buckets: allocated outside the lock, and MemoryError where memory is short."""

import sys
import threading
import time

import pytest

from hwheel import ManualTimer
from programs import output_of
from systems import skip_under_address_sanitizer

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


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS")
@skip_under_address_sanitizer("AddressSanitizer needs more memory than the limit")
def test_out_of_memory_leaves_the_timer_unchanged():
    assert (
        output_of(
            "-c",
            """
import resource
from array import array
from hwheel import ManualTimer, TimerTask, TimingWheel
from hwheel_core import replay

timer = ManualTimer(wheel_size=2**20)
wheel = TimingWheel(1, 2**20)
task = timer.call_later(1.0, print, "ran")
pending = TimerTask(5)
wheel.add(pending, 5)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 50_000_000, resource.RLIM_INFINITY))

def refused(function, *arguments):
    try:
        function(*arguments)
    except MemoryError:
        return
    raise AssertionError(function)

for _ in range(3):
    refused(timer.call_later, 10_000.0, print)
    refused(timer.call_at, 10_000.0, print)
    refused(timer.add, TimerTask(10_000_000))
    refused(timer.call_every, 10_000.0, print)
    refused(timer.call_many, array("q", [10_000_000]), print)
    refused(wheel.add, TimerTask(10_000_000), 10_000_000)
    refused(task.reschedule, 10_000_000)
    refused(TimingWheel, 1, 2**20)
    refused(lambda: ManualTimer(wheel_size=2**20))
    refused(replay, array("q", [0]), array("q", [5]), array("q", [9]), array("q"), 1, 2**20)
assert (len(timer), len(wheel), task.pending, pending.pending) == (1, 1, True, True)
timer.advance(1)
assert wheel.poll(5) == [pending]
""",
        )
        == "ran\n"
    )
