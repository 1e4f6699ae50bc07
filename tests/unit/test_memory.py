"""The memory of wheels: no write beyond it, no leak after a failed allocation, and no allocation under the lock."""

import sys
import threading
import time
import tracemalloc

import pytest

from hwheel import ManualTimer, TimerTask, TimingWheel
from programs import run_python
from systems import skip_under_address_sanitizer

NO_SWITCH = "this CPython cannot let allocations fail on request"
FULL_WHEELS = """
from array import array
from hwheel import ManualTimer, TimerTask, TimingWheel


def fill(tick_ms, wheel_size):
    # Fill every bucket of three levels beyond its 16 hints, and the delay queue to its capacity.
    wheel = TimingWheel(tick_ms, wheel_size, 0)
    reach = 1
    for level in range(3):
        for ticks in range(1, wheel_size):
            for _ in range(17):
                wheel.add(TimerTask(0), reach * ticks * tick_ms)
        reach *= wheel_size
    assert len(wheel.snapshot().queue) == 3 * (wheel_size - 1)
    return wheel


kept = []
for wheel_size in range(2, 40):
    wheel = fill(wheel_size % 3 + 1, wheel_size)
    assert len(wheel.poll(10**9)) == 3 * 17 * (wheel_size - 1)
    kept.append(fill(1, wheel_size))
    timer = ManualTimer(wheel_size=wheel_size)
    batch = timer.call_many(array("q", range(wheel_size ** 2)), len)
    timer.advance(10**6)
    timer.close()
print("done")
"""


@skip_under_address_sanitizer("AddressSanitizer checks this itself")
def test_full_wheel_writes_only_to_its_own_memory():
    # Python's debug allocator checks the bytes around each block.
    ended = run_python("-c", FULL_WHEELS, env={"PYTHONMALLOC": "debug"})
    assert (ended.status, ended.out, ended.err) == (0, "done\n", "")


@pytest.mark.parametrize("grow", [False, True], ids=["new wheel", "new level"])
def test_failed_allocation_frees_the_blocks_allocated_before(grow):
    # A level has two blocks of memory: its buckets and their part of the delay queue.
    _testcapi = pytest.importorskip("_testcapi", reason=NO_SWITCH)
    wheel_size, task = 4096, TimerTask(0)
    level_bytes = wheel_size * 128
    refused = 0
    tracemalloc.start()
    try:
        for number in range(100):
            wheel = TimingWheel(1, wheel_size, 0) if grow else None
            before, _ = tracemalloc.get_traced_memory()
            _testcapi.set_nomemory(number, number + 1)
            try:
                if grow:
                    wheel.add(task, 5 * wheel_size)
                else:
                    wheel = TimingWheel(1, wheel_size, 0)
                break
            except MemoryError:
                refused += 1
            finally:
                _testcapi.remove_mem_hooks()
            after, _ = tracemalloc.get_traced_memory()
            assert after - before < level_bytes // 2
    finally:
        tracemalloc.stop()
    assert refused >= 2
    assert wheel.add(TimerTask(0), 5 * wheel_size)


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
    # Writing a level of 128 MB takes long. The lock is held only for a fraction of that time.
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
