"""The elastic pool behind Timer: who gets a thread when, and that threads go again. It looks when the test says."""

import threading
import time
import weakref
from queue import Empty, SimpleQueue

import pytest

from hwheel.threading import pool as thread_pool
from hwheel.threading.pool import INITIAL_THREADS, ThreadPool

PATIENCE_S = 60


class Looks:
    """call_later of a pool: keeps what is to be called until the test calls it."""

    def __init__(self):
        self.waiting = []

    def __call__(self, delay, callback):
        self.waiting.append(callback)

    def happen(self, times=1):
        for _ in range(times):
            waiting, self.waiting = self.waiting, []
            for callback in waiting:
                callback()


@pytest.fixture
def looks():
    return Looks()


@pytest.fixture
def pool(looks, monkeypatch):
    monkeypatch.setattr(thread_pool, "CHECK_INTERVAL_S", 1000)  # by the clock nothing is ever blocked
    pool = ThreadPool(daemon=True, call_later=looks)
    yield pool
    pool.leave()


@pytest.fixture
def block(pool, gate):
    """block(): a job of the pool that blocks until the test's end."""
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


def test_an_idle_thread_is_used_again(pool, eventually):
    for _ in range(100):
        assert run_one(pool).wait(PATIENCE_S)
        eventually(lambda: pool._idle)
    assert len(pool) == 1


def test_the_thread_that_was_idle_last_works_again(pool, block, gate, eventually):
    """However many are idle, so that the others are without work, and end."""
    block(INITIAL_THREADS)
    gate.set()
    used = set()
    for _ in range(2 * INITIAL_THREADS):
        eventually(lambda: len(pool._idle) == INITIAL_THREADS)
        pool.submit(lambda: used.add(threading.current_thread()))
    eventually(lambda: len(pool._idle) == INITIAL_THREADS)
    assert len(used) == 1


def test_the_first_threads_come_at_once(pool, block):
    block(INITIAL_THREADS)
    assert len(pool) == INITIAL_THREADS


def test_many_quick_jobs_share_few_threads(pool, looks):
    counted = threading.Semaphore(0)
    for _ in range(10_000):
        pool.submit(counted.release)
    for _ in range(10_000):
        assert counted.acquire(timeout=PATIENCE_S)
    assert len(pool) <= INITIAL_THREADS
    looks.happen(3)
    assert len(pool) <= INITIAL_THREADS


def test_blocked_jobs_get_threads_as_long_as_there_is_a_queue(pool, looks, block, eventually):
    block(INITIAL_THREADS)
    block(96, begins=False)
    sizes = []
    while looks.waiting:
        looks.happen()
        sizes.append(len(pool))
        eventually(lambda: pool._taken == len(pool), "each thread has a job")
        assert len(sizes) < 50
    assert len(pool) == INITIAL_THREADS + 96
    assert sizes[0] == INITIAL_THREADS  # once could be chance
    assert sizes == sorted(sizes)


def test_when_all_are_blocked_a_single_job_gets_a_thread_at_once(pool, block, monkeypatch):
    block(INITIAL_THREADS)
    monkeypatch.setattr(thread_pool, "CHECK_INTERVAL_S", 0)
    assert run_one(pool).wait(PATIENCE_S)
    assert len(pool) == INITIAL_THREADS + 1


def test_no_job_is_forgotten_when_no_thread_can_be_started(pool, looks, block, monkeypatch):
    block(INITIAL_THREADS)
    start = threading.Thread.start

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    ran = run_one(pool)
    looks.happen(5)
    assert len(pool) == INITIAL_THREADS
    monkeypatch.setattr(threading.Thread, "start", start)
    looks.happen()
    assert ran.wait(PATIENCE_S)


def test_threads_without_work_end(pool, monkeypatch, block, gate, eventually):
    monkeypatch.setattr(thread_pool, "IDLE_TIMEOUT_S", 0.01)
    before = threading.active_count()
    block(INITIAL_THREADS)
    gate.set()
    eventually(lambda: len(pool) == 0 and threading.active_count() <= before)
    assert run_one(pool).wait(PATIENCE_S)  # and come again


def test_as_many_threads_as_are_wanted_stay(looks, monkeypatch, eventually):
    monkeypatch.setattr(thread_pool, "IDLE_TIMEOUT_S", 0.01)
    pool = ThreadPool(daemon=True, call_later=looks, minimum=1)
    before = threading.active_count()
    pool.fill()
    pool.fill()
    assert len(pool) == 1
    together = threading.Barrier(3)
    for _ in range(3):
        pool.submit(lambda: together.wait(PATIENCE_S))
    eventually(lambda: len(pool) == 1 and threading.active_count() <= before + 1)
    time.sleep(0.05)  # several times as long as it would wait for work if it were not the last
    assert len(pool) == 1
    assert run_one(pool).wait(PATIENCE_S)
    pool.leave()
    eventually(lambda: len(pool) == 0 and threading.active_count() <= before)


def test_a_thread_that_is_just_ending_takes_what_comes_in(pool, monkeypatch):
    monkeypatch.setattr(thread_pool, "IDLE_TIMEOUT_S", 0.0002)
    for i in range(2000):
        assert run_one(pool).wait(PATIENCE_S)
        if i % 20 == 0:
            time.sleep(0.0002)


class TimesOutAsSomethingComes(SimpleQueue):
    """Who waits in it for so long only learns that the time is over when something has just come in."""

    def get(self, block=True, timeout=None):
        if timeout is None:
            return super().get()
        self.put(super().get(timeout=PATIENCE_S))
        raise Empty


def test_what_comes_in_when_the_time_of_a_thread_is_over_is_done(pool, monkeypatch, eventually):
    monkeypatch.setattr(thread_pool, "SimpleQueue", TimesOutAsSomethingComes)
    for _ in range(5):
        assert run_one(pool).wait(PATIENCE_S)
        eventually(lambda: pool._idle)
    assert len(pool) == 1


def test_when_nobody_could_be_asked_to_look_the_next_job_sees_to_it(looks):
    fails = [True]

    def call_later(delay, callback):
        if fails:
            raise MemoryError
        looks(delay, callback)

    pool = ThreadPool(daemon=True, call_later=call_later)
    with pytest.raises(MemoryError):
        pool.submit(int)
    fails.clear()
    # A thread that is idle is asked at once; so all are gone, and one is to be started.
    pool.leave()
    pool.submit(int)
    assert looks.waiting


def test_after_leave_threads_end_but_work_is_still_done(pool, block, gate, eventually):
    assert run_one(pool).wait(PATIENCE_S)
    block(2)
    ran = [run_one(pool) for _ in range(20)]
    pool.leave()
    gate.set()
    assert all(one.wait(PATIENCE_S) for one in ran)
    eventually(lambda: len(pool) == 0)
    assert run_one(pool).wait(PATIENCE_S)
    eventually(lambda: len(pool) == 0)


def test_an_idle_thread_holds_on_to_nothing(pool, monkeypatch, eventually):
    monkeypatch.setattr(thread_pool, "IDLE_TIMEOUT_S", 1000)

    class Job:
        def __call__(self):
            pass

    job = Job()
    seen = weakref.ref(job)
    pool.submit(job)
    del job
    eventually(lambda: seen() is None)


@pytest.mark.parametrize("daemon", [False, True])
def test_its_threads_are_daemons_or_not(looks, daemon):
    pool = ThreadPool(daemon=daemon, call_later=looks)
    seen = []
    done = threading.Event()
    pool.submit(lambda: (seen.append(threading.current_thread().daemon), done.set()))
    assert done.wait(PATIENCE_S)
    assert seen == [daemon]
    pool.leave()


def test_a_thread_of_an_abandoned_pool_ends_with_its_job(pool, block, monkeypatch, eventually):
    """What else there was to do is the parent's."""
    monkeypatch.setattr(thread_pool, "IDLE_TIMEOUT_S", 1000)
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


def test_an_idle_thread_is_taken_out_by_who_has_the_lock(pool, eventually):
    """Also by itself, when it has a job of a submit() that was interrupted before it could take it out."""
    pool.submit(int)
    eventually(lambda: pool._idle)
    done = threading.Event()
    with pool._lock:
        (inbox,) = pool._idle.values()
        inbox.put(done.set)
        eventually(inbox.empty)
        time.sleep(0.05)
        assert pool._idle
    assert done.wait(PATIENCE_S)
