"""Batches that threads extend, cancel, move, and drop while their timers expire."""

import os
import sysconfig
import threading
import time
from array import array
from collections import Counter

import pytest

import hwheel_core
from hwheel import ManualTimer, SystemTimer, TimerClosed
from invariants import check_invariants
from sampling import scaled, seeded_random
from threads import errors_in_threads, run_concurrently

THREADS = 4
FAR_OFF_MS = 3_600_000


@pytest.mark.parametrize("far_off", [0, 0.1])
def test_extended_batch_runs_or_cancels_each_index_once(make_timer, executor, many_switches, soak_seconds, far_off):
    """The share far_off of timers stays pending until close(). If it is 0, the batch is often empty in between."""
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
            check_invariants(timer)

    errors = errors_in_threads([lambda seed=seed: work(seed) for seed in range(THREADS)])
    returned = timer.close()
    if hasattr(executor, "shutdown"):
        executor.shutdown(wait=True)
    assert errors == []
    assert [
        error for error in reported if not isinstance(error, TimerClosed)
    ] == []  # an extend in a callback after close()
    indices = [index for one in ranges for index in one]
    assert sorted(indices) == list(range(len(batch)))
    left = list(batch.indices())
    assert returned == ([batch] if left else [])
    assert max(Counter(ran + left).values(), default=0) <= 1
    assert len(ran) + sum(cancelled) + len(left) == len(batch)
    stats = timer.stats()
    assert (stats.added, stats.expired, stats.cancelled) == (len(batch), len(ran), sum(cancelled))
    assert (batch.callback is None) == (not left)


def test_concurrent_extends_get_disjoint_indices(many_switches):
    for _ in range(scaled(100)):
        timer, ran, ranges = ManualTimer(), [], []
        batch = timer.call_many(array("q"), ran.extend)

        def extend(count, timer=timer, ran=ran, ranges=ranges, batch=batch):
            for _ in range(3):
                ranges.append(batch.extend(array("q", range(count)), ran.extend))

        assert errors_in_threads([lambda: extend(5000), lambda: extend(7), lambda: extend(9000)]) == []
        check_invariants(timer)
        assert sorted(index for one in ranges for index in one) == list(range(len(batch)))
        due_ms = {index: delay_ms for one in ranges for delay_ms, index in enumerate(one)}
        timer.advance(10)
        assert ran == sorted(due_ms, key=lambda index: (due_ms[index], index))


def test_extend_during_close_is_returned_or_refused(many_switches):
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


COUNT = 1_000_000


def test_cancel_in_on_error_takes_the_rest_of_a_batch_that_is_still_being_added(executor):
    ran, cancelled, reported = [], [], threading.Event()

    def fail(indices):
        ran.append(len(indices))
        raise RuntimeError("the first timers are enough")

    def cancel(batch, error):
        cancelled.append(batch.cancel())
        reported.set()

    with SystemTimer("batch", executor=executor, on_error=cancel) as timer:
        delays_ms = array("q", [0] + [60_000] * (COUNT - 1))
        batch = timer.call_many(delays_ms, fail)
        assert reported.wait(60)
        assert batch.pending == 0
        assert sum(ran) + sum(cancelled) == COUNT
        assert list(batch.indices()) == []
        stats = timer.stats()
        assert (stats.pending, stats.expired, stats.cancelled) == (0, sum(ran), sum(cancelled))


SCRIPT = """
import sys, threading, time
from array import array
from hwheel import SystemTimer

sys.setswitchinterval(1e-6)
timer = SystemTimer(executor={executor})
stop = threading.Event()

def contend():
    # Keep the lock busy, so that the thread that dispatches a batch waits for it and releases the GIL.
    delays_ms = array("q", [60_000] * 4000)
    while not stop.is_set():
        timer.call_many(delays_ms, len).cancel()

def drop(length):
    delays_ms = array("q", [1] * length)
    while not stop.is_set():
        batch = timer.call_many(delays_ms, len)
        late = time.perf_counter() + 0.0008
        while batch.pending == length and time.perf_counter() < late:
            pass
        batch.cancel()
        del batch

threads = [threading.Thread(target=contend) for _ in range(2)]
threads += [threading.Thread(target=drop, args=(length,)) for length in (1, 3, 50, 1)]
for thread in threads:
    thread.start()
time.sleep({seconds})
stop.set()
for thread in threads:
    thread.join()
assert timer.close() == []
stats = timer.stats()
assert stats.pending == 0 and stats.added == stats.expired + stats.cancelled, stats
"""


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="this CPython does not support PYTHONMALLOC=malloc"
)
@pytest.mark.parametrize("executor", ["None", "'inline'"])
def test_memory_of_a_dropped_batch_is_not_accessed(script, soak_seconds, monkeypatch, executor):
    # glibc overwrites freed memory, so that a later read of it fails.
    monkeypatch.setitem(os.environ, "PYTHONMALLOC", "malloc")
    monkeypatch.setitem(os.environ, "MALLOC_PERTURB_", "165")
    process = script(SCRIPT.format(executor=executor, seconds=2 * soak_seconds))
    output, errors = process.communicate(timeout=200 + soak_seconds)
    assert (process.returncode, output, errors) == (0, "", "")


@pytest.mark.skipif(not hwheel_core.DEBUG, reason="needs a debug build")
def test_debug_check_accepts_a_batch_that_is_being_added(many_switches):
    timer = ManualTimer(wheel_size=16)
    delays_ms = array("q", [5]) * 2_000_000
    give_up = time.monotonic() + 2

    def add():
        while time.monotonic() < give_up:
            timer.call_many(delays_ms, int).cancel()

    def check():
        while time.monotonic() < give_up:
            hwheel_core.debug_check(timer)

    run_concurrently(add, check)
    timer.close()
