"""The elastic pool behind Timer: which job gets which thread, and when threads end. The tests trigger its checks."""

import math
import threading
import time
import weakref
from queue import Empty, SimpleQueue

import pytest

from hwheel.threading import pool as thread_pool
from hwheel.threading.latch import Latch
from hwheel.threading.pool import INITIAL_THREADS, ThreadPool

PATIENCE_S = 60


class Checks:
    """The pool's call_later: keeps the callbacks until the test calls them."""

    def __init__(self):
        self.scheduled = []

    def __call__(self, delay, callback):
        self.scheduled.append(callback)

    def run(self, times=1):
        for _ in range(times):
            scheduled, self.scheduled = self.scheduled, []
            for callback in scheduled:
                callback()


@pytest.fixture
def checks():
    return Checks()


@pytest.fixture
def pool(checks):
    pool = ThreadPool(daemon=True, call_later=checks)
    yield pool
    pool.leave()


@pytest.fixture
def block(pool, gate):
    """block(): submit jobs that block until the end of the test."""
    entered = threading.Semaphore(0)

    def job():
        entered.release()
        gate.wait(PATIENCE_S)

    def block(count=1, *, begins=True):
        for _ in range(count):
            pool.submit(job)
        for _ in range(count if begins else 0):
            assert entered.acquire(timeout=PATIENCE_S)

    return block


def run_one(pool):
    ran = threading.Event()
    pool.submit(ran.set)
    return ran


def test_the_thread_that_was_last_idle_gets_the_job(pool, block, gate, eventually):
    """So the other threads stay idle and end."""
    block(INITIAL_THREADS)
    gate.set()
    used = set()
    for _ in range(2 * INITIAL_THREADS):
        eventually(lambda: len(pool._idle) == INITIAL_THREADS)
        pool.submit(lambda: used.add(threading.current_thread()))
    eventually(lambda: len(pool._idle) == INITIAL_THREADS)
    assert len(used) == 1


def test_many_quick_jobs_share_few_threads(pool, checks):
    counted = threading.Semaphore(0)
    for _ in range(10_000):
        pool.submit(counted.release)
    for _ in range(10_000):
        assert counted.acquire(timeout=PATIENCE_S)
    assert len(pool) <= INITIAL_THREADS
    checks.run(3)
    assert len(pool) <= INITIAL_THREADS


def test_checks_add_threads_for_blocked_jobs_until_the_queue_is_empty(pool, checks, block, eventually):
    block(INITIAL_THREADS)
    block(96, begins=False)
    sizes = []
    while checks.scheduled:
        checks.run()
        sizes.append(len(pool))
        eventually(lambda: pool._taken == len(pool), "each thread has a job")
        assert len(sizes) < 50
    assert len(pool) == INITIAL_THREADS + 96
    assert sizes == sorted(sizes) and sizes[0] == INITIAL_THREADS + 1


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_no_job_is_lost_when_no_thread_can_be_started(pool, checks, block, monkeypatch, error):
    block(INITIAL_THREADS)

    def refuse(thread):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        ran = run_one(pool)
        checks.run(5)
        assert len(pool) == INITIAL_THREADS
    checks.run()
    assert ran.wait(PATIENCE_S)


def test_if_a_check_cannot_be_scheduled_the_next_job_tries_again(checks):
    fails = [True]

    def call_later(delay, callback):
        if fails:
            raise MemoryError
        checks(delay, callback)

    pool = ThreadPool(daemon=True, call_later=call_later)
    with pytest.raises(MemoryError):
        pool.submit(int)
    fails.clear()
    pool.leave()  # an idle thread would take the job without a check
    pool.submit(int)
    assert checks.scheduled


def test_idle_threads_end(pool, monkeypatch, block, gate, eventually):
    monkeypatch.setattr(thread_pool, "IDLE_TIMEOUT_S", 0.01)
    before = threading.active_count()
    block(INITIAL_THREADS)
    gate.set()
    eventually(lambda: len(pool) == 0 and threading.active_count() <= before)
    assert run_one(pool).wait(PATIENCE_S)


def test_the_minimum_number_of_threads_stays_alive(checks, monkeypatch, eventually):
    monkeypatch.setattr(thread_pool, "IDLE_TIMEOUT_S", 0.01)
    pool = ThreadPool(daemon=True, call_later=checks, minimum=1)
    before = threading.active_count()
    pool.fill()
    pool.fill()
    assert len(pool) == 1
    together = threading.Barrier(3)
    for _ in range(3):
        pool.submit(lambda: together.wait(PATIENCE_S))
    eventually(lambda: len(pool) == 1 and threading.active_count() <= before + 1)
    time.sleep(0.05)  # several idle timeouts
    assert len(pool) == 1
    assert run_one(pool).wait(PATIENCE_S)
    pool.leave()
    eventually(lambda: len(pool) == 0 and threading.active_count() <= before)


class TimesOutWithAJob(SimpleQueue):
    """A get() with a timeout always times out, at the moment when a job arrives."""

    def get(self, block=True, timeout=None):
        if timeout is None:
            return super().get()
        self.put(super().get(timeout=PATIENCE_S))
        raise Empty


def test_a_job_that_arrives_at_the_idle_timeout_runs(pool, monkeypatch, eventually):
    monkeypatch.setattr(thread_pool, "SimpleQueue", TimesOutWithAJob)
    for _ in range(5):
        assert run_one(pool).wait(PATIENCE_S)
        eventually(lambda: pool._idle)
    assert len(pool) == 1


def test_after_leave_jobs_run_and_threads_end(pool, block, gate, eventually):
    assert run_one(pool).wait(PATIENCE_S)
    block(2)
    ran = [run_one(pool) for _ in range(20)]
    pool.leave()
    gate.set()
    assert all(one.wait(PATIENCE_S) for one in ran)
    eventually(lambda: len(pool) == 0)
    assert run_one(pool).wait(PATIENCE_S)
    eventually(lambda: len(pool) == 0)


def test_an_idle_thread_keeps_no_reference_to_its_job(pool, eventually):
    class Job:
        def __call__(self):
            pass

    job = Job()
    seen = weakref.ref(job)
    pool.submit(job)
    del job
    eventually(lambda: seen() is None)


def test_a_thread_of_an_abandoned_pool_ends_with_its_job(pool, block, eventually):
    """The other jobs are those of the parent process."""
    threads = []
    queued = threading.Event()

    def job():
        queued.wait(PATIENCE_S)
        pool.abandon()
        threads.append(threading.current_thread())

    block(INITIAL_THREADS - 1)
    pool.submit(job)
    others = [run_one(pool) for _ in range(3)]
    queued.set()
    eventually(lambda: threads and not threads[0].is_alive())
    assert not any(other.is_set() for other in others)


def test_a_latch_wakes_every_thread_that_waits():
    latch = Latch()
    woken = []
    timeouts = [PATIENCE_S, None, 1e300, math.inf]  # some are longer than a lock can wait
    threads = [threading.Thread(target=lambda s=s: woken.append(latch.wait(s))) for s in timeouts]
    for thread in threads:
        thread.start()
    assert latch.wait(0.01) is False
    latch.set()
    latch.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert woken == [True] * len(timeouts)
    assert latch.wait() is True and latch.wait(-1) is True
