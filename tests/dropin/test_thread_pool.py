"""The elastic pool behind Timer: which job gets which thread, and when threads end. The tests trigger its checks."""

import contextlib
import functools
import math
import threading
import time
import weakref

import pytest

from hwheel_core import INITIAL_THREADS, Latch, ThreadPool
from strikes import Strike, strike

PATIENCE_S = 60
pytestmark = pytest.mark.usefixtures("no_gc_callbacks")


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


def make_pool(checks, **options):
    return ThreadPool(**{"daemon": True, "call_later": checks, "on_forked": int, **options})


@pytest.fixture
def pool(checks):
    pool = make_pool(checks)
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
        eventually(lambda: pool.idle_count == INITIAL_THREADS)
        pool.submit(lambda: used.add(threading.current_thread()))
    eventually(lambda: pool.idle_count == INITIAL_THREADS)
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
        eventually(lambda: pool.taken == len(pool), "each thread has a job")
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


@pytest.mark.parametrize("refuses", [False, True])
def test_if_a_check_cannot_be_scheduled_the_next_job_tries_again(checks, monkeypatch, eventually, refuses):
    """A job whose submit() fails does not run later. It fails only if there is no thread that will take the job."""
    fails = [True]
    start = threading.Thread.start
    ran = []

    def call_later(delay, callback):
        if fails:
            raise MemoryError
        checks(delay, callback)

    def start_or_refuse(thread):
        if fails and refuses:
            raise RuntimeError("can't start new thread")
        start(thread)

    pool = make_pool(checks, call_later=call_later)
    monkeypatch.setattr(threading.Thread, "start", start_or_refuse)
    with pytest.raises(MemoryError) if refuses else contextlib.nullcontext():
        pool.submit(functools.partial(ran.append, 1))
    fails.clear()
    pool.leave()  # an idle thread would take the job without a check
    assert run_one(pool).wait(PATIENCE_S)
    assert checks.scheduled
    eventually(lambda: ran == ([] if refuses else [1]))


def test_a_pool_whose_threads_were_all_refused_grows_at_the_next_check(pool, checks, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        ran = run_one(pool)
    assert len(pool) == 0 and pool.queue_length == 1
    checks.run()
    assert ran.wait(PATIENCE_S)


@pytest.fixture
def reported(monkeypatch):
    """The types of the exceptions that are passed to threading.excepthook."""
    types = []
    monkeypatch.setattr(threading, "excepthook", lambda args: types.append(args.exc_type))
    return types


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("by_check", [False, True])
def test_a_start_of_a_thread_that_is_struck_loses_no_job(
    pool, checks, block, gate, monkeypatch, reported, eventually, begins, by_check
):
    block(INITIAL_THREADS if by_check else 1)
    start = threading.Thread.start

    def start_and_strike(thread):
        patch.undo()
        if begins:
            start(thread)
        raise Strike

    with monkeypatch.context() as patch:
        if by_check:
            ran = run_one(pool)
            patch.setattr(threading.Thread, "start", start_and_strike)
            with pytest.raises(Strike):
                checks.run()
        else:
            patch.setattr(threading.Thread, "start", start_and_strike)
            ran = run_one(pool)
            assert reported == [Strike]
    checks.run()
    assert ran.wait(PATIENCE_S)
    size = len(pool)
    gate.set()
    eventually(lambda: pool.idle_count == len(pool) == size)


def test_threads_that_end_before_they_reach_the_loop_leave_the_count(pool, checks, monkeypatch, reported, eventually):
    """As if an exception from outside had struck in the standard library's part of the thread."""
    struck = []

    def run(thread):
        struck.append(thread)
        raise Strike

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "run", run)
        ran = [run_one(pool) for _ in range(INITIAL_THREADS)]
        eventually(lambda: len(struck) == INITIAL_THREADS and not any(thread.is_alive() for thread in struck))
    assert len(pool) == INITIAL_THREADS
    checks.run()  # forgets the threads and starts one
    assert all(one.wait(PATIENCE_S) for one in ran)
    assert len(pool) == 1
    assert reported == [Strike] * INITIAL_THREADS


def test_a_job_that_raises_is_reported_and_its_thread_goes_on(pool, reported, eventually):
    threads = []

    def job():
        threads.append(threading.current_thread())
        raise Strike

    for _ in range(5):
        pool.submit(job)
        eventually(lambda: pool.idle_count == 1)
    assert len({*threads}) == len(pool) == 1 and reported == [Strike] * 5


def test_an_exception_that_comes_too_late_for_a_job_strikes_no_other(pool, reported, eventually):
    threads, ran = [], []
    pool.submit(lambda: threads.append(threading.current_thread()))
    for i in range(20):
        eventually(lambda: pool.idle_count == 1)
        strike(threads[0].ident)
        pool.submit(lambda i=i: ran.append(i))
        eventually(lambda i=i: len(ran) == i + 1)
    assert ran == [*range(20)] and reported == [Strike] * 20
    assert threads[0].is_alive() and len(pool) == 1


def test_idle_threads_end(checks, gate, eventually):
    pool = make_pool(checks, idle_timeout=0.01)
    before = threading.active_count()
    for _ in range(INITIAL_THREADS):
        pool.submit(lambda: gate.wait(PATIENCE_S))
    assert len(pool) == INITIAL_THREADS
    gate.set()
    eventually(lambda: len(pool) == 0 and threading.active_count() <= before)
    assert run_one(pool).wait(PATIENCE_S)


def test_the_minimum_number_of_threads_stays_alive(checks, eventually):
    pool = make_pool(checks, minimum=1, idle_timeout=0.01)
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


class TimesOutWithAJob:
    """A lock whose acquire() with a timeout always times out, at the moment when a job arrives."""

    def __init__(self, lock=threading.Lock):
        self._lock = lock()
        self.release = self._lock.release

    def acquire(self, blocking=True, timeout=-1):
        acquired = self._lock.acquire(blocking, -1 if timeout < 0 else PATIENCE_S)
        if timeout < 0:
            return acquired
        self._lock.release()
        return False

    def __enter__(self):
        return self._lock.__enter__()

    def __exit__(self, *error):
        self._lock.release()


def test_a_job_that_arrives_at_the_idle_timeout_runs(pool, monkeypatch, eventually):
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Lock", TimesOutWithAJob)
        assert run_one(pool).wait(PATIENCE_S)
    for _ in range(5):
        eventually(lambda: pool.idle_count)
        assert run_one(pool).wait(PATIENCE_S)
    eventually(lambda: pool.idle_count)
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


def test_a_thread_that_is_interrupted_in_a_latch_wakes_the_next_one(monkeypatch):
    class Interrupted:
        def __init__(self, lock=threading.Lock):
            self._lock = lock()
            self.release = self._lock.release

        def acquire(self, *args):
            acquired = self._lock.acquire(*args)
            if threading.current_thread().name == "interrupted":
                raise KeyboardInterrupt
            return acquired

    def wait_interrupted():
        with pytest.raises(KeyboardInterrupt):
            latch.wait()

    with monkeypatch.context() as patch:
        patch.setattr(threading, "Lock", Interrupted)
        latch = Latch()
    threads = [
        threading.Thread(target=wait_interrupted, name="interrupted"),
        threading.Thread(target=latch.wait),
    ]
    for thread in threads:
        thread.start()
        time.sleep(0.01)  # the first one waits first
    latch.set()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
