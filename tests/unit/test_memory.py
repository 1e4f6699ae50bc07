"""The memory of a wheel: what is written lies inside of it, and it goes back."""

import tracemalloc
from array import array

import pytest

from hwheel import DelayQueue, ManualTimer, TimerTask, TimingWheel
from programs import run_python
from systems import skip_under_address_sanitizer

NO_SWITCH = "this CPython came without its switch for failing allocations"
FULL_WHEELS = """
from array import array
from hwheel import ManualTimer, TimerTask, TimingWheel


def fill(tick_ms, wheel_size):
    # Each bucket of three levels holds more than its hints are about, so that all of it is written to, and the delay
    # queue is as long as it can be.
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
print("nothing was found")
"""


@skip_under_address_sanitizer("AddressSanitizer sees it itself")
def test_a_full_wheel_writes_to_nobody_elses_memory():
    """Python's allocator for debugging fills what it gives and takes back, and looks at what lies around it."""
    ended = run_python("-c", FULL_WHEELS, env={"PYTHONMALLOC": "debug"})
    assert (ended.status, ended.out, ended.err) == (0, "nothing was found\n", "")


def make_and_drop(count):
    for _ in range(count):
        wheel = TimingWheel(1, 8, 0)
        for level in range(4):
            wheel.add(TimerTask(0), 8**level)
        wheel.poll(5000)
        timer = ManualTimer(wheel_size=8)
        timer.call_later(3, int)
        timer.call_many(array("q", [3, 300, 3000]), len)
        timer.close()


def what_stays(lives):
    """The bytes that do not go back when lives(200) has been lived."""
    lives(10)
    tracemalloc.start()
    try:
        lives(10)
        before, _ = tracemalloc.get_traced_memory()
        lives(200)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


def test_the_memory_of_wheels_goes_back_with_them():
    assert what_stays(make_and_drop) < 200 * 500  # a level of these has a kilobyte


def fill_queue_and_drop(count):
    for _ in range(count):
        q = DelayQueue(timer=ManualTimer())
        for level in range(4):
            q.put(level, 64**level)
        q.drain()


def test_the_memory_of_a_queues_wheel_goes_back_with_it():
    assert what_stays(fill_queue_and_drop) < 200 * 250  # the delay queue of one level has half a kilobyte


def grow_and_end(count):
    """Each extend() that finds no room makes a block. The first seven are over at once, while the batch runs, and the
    others when it is cancelled."""
    for _ in range(count):
        timer = ManualTimer()
        run = len
        batch = timer.call_many(array("q", [5] * 100), run)
        for number in range(1, 15):
            batch.extend(array("q", [5 if number < 7 else 50] * 100 * number), run)
        timer.advance(0.005)
        assert batch.pending == sum(100 * number for number in range(7, 15))
        batch.cancel()
        timer.close()


def test_the_memory_of_batches_that_have_grown_goes_back_when_they_are_over():
    assert what_stays(grow_and_end) < 200 * 500  # the smallest of the blocks has some five kilobytes


@pytest.mark.parametrize("grow", [False, True], ids=["a wheel", "a level more"])
def test_where_one_allocation_fails_those_beside_it_go_back(grow):
    """A level is two blocks of memory: its buckets, and a delay queue with room for all."""
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


@pytest.mark.parametrize("alone", [True, False], ids=["that one", "and all that follow"])
def test_where_an_allocation_fails_for_a_level_of_a_queue_it_is_as_it_was(alone):
    _testcapi = pytest.importorskip("_testcapi", reason=NO_SWITCH)
    refused = 0
    for number in range(100):
        q = DelayQueue(timer=ManualTimer())
        q.put("near", 0.01)
        _testcapi.set_nomemory(number, number + 1 if alone else 0)
        try:
            q.put("far", 20)
            break
        except MemoryError:
            refused += 1
        finally:
            _testcapi.remove_mem_hooks()
        assert q.drain() == ["near"]
    assert refused >= 2
    assert q.drain() == ["near", "far"]
