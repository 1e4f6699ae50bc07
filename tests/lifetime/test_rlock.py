"""The core's reentrant lock, as RLock and as the lock of an operation: like threading.RLock, also after a fork."""

import _thread
import os
import signal
import threading
import time

import pytest

from hwheel.purgatory import DelayedOperation
from hwheel_core import RLock
from threads import call_in_thread, errors_in_threads

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture(params=[RLock, lambda: DelayedOperation(60_000).lock], ids=["RLock", "operation"])
def lock(request):
    yield request.param()
    request.node.funcargs.pop("lock", None)  # pytest would keep the operation until after the check for leaked objects


def test_arguments_and_errors_equal_those_of_threading(lock):
    standard = threading.RLock()
    for arguments in [(False, 1), (True, -2), (True, float("nan")), (True, threading.TIMEOUT_MAX * 2), (True, "1")]:
        with pytest.raises(Exception) as expected:
            standard.acquire(*arguments)
        with pytest.raises(expected.type):
            lock.acquire(*arguments)
    with pytest.raises(RuntimeError):
        lock.release()
    assert lock.acquire(timeout=0.0) is lock.acquire(False) is lock.acquire(blocking=True) is True
    assert isinstance(call_in_thread(lambda: errors_in_threads([lock.release])[0]), RuntimeError)
    for _ in range(3):
        assert lock._is_owned()
        lock.release()
    assert not lock._is_owned()


def test_lock_excludes_threads_and_starves_none(lock, many_switches):
    inside, most = [], []

    def play():
        for _ in range(300):
            with lock, lock:
                inside.append(1)
                most.append(len(inside))
                time.sleep(0)  # lets other threads reach the lock
                inside.pop()

    assert errors_in_threads([play] * 6) == []
    assert len(most) == 1800 and max(most) == 1
    assert not lock._is_owned() and lock.acquire(False)


def test_waiters_with_and_without_a_timeout(lock, eventually):
    taken = []

    def wait(timeout):
        taken.append((timeout, lock.acquire(timeout=timeout)))
        if taken[-1][1]:
            lock.release()

    threads = [threading.Thread(target=wait, args=(timeout,)) for timeout in (0.01, -1, 100, -1, 0)]
    with lock:
        for thread in threads:
            thread.start()
        eventually(lambda: len(taken) == 2)
    for thread in threads:
        thread.join(60)
    assert sorted(taken) == [(-1, True), (-1, True), (0, False), (0.01, False), (100, True)]


def hold(lock, then):
    """Acquire the lock in a thread, which calls then() before it releases the lock."""
    held = threading.Event()

    def body():
        with lock:
            held.set()
            then()

    thread = threading.Thread(target=body)
    thread.start()
    assert held.wait(60)
    return thread


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer()")
def test_exception_of_a_signal_handler_ends_only_the_wait_of_the_main_thread(lock):
    go_on = threading.Event()

    def interrupt(*_):
        raise InterruptedError

    holder = hold(lock, lambda: go_on.wait(60))
    usual = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(InterruptedError):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            lock.acquire()
    finally:
        signal.signal(signal.SIGALRM, usual)
    assert not lock._is_owned()
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(lock.acquire(timeout=60)))
    waiter.start()
    go_on.set()
    waiter.join(60)
    holder.join(60)
    assert answers == [True]


@pytest.mark.parametrize("timeout", [-1, 60])
def test_interrupt_between_the_release_and_the_wake_up_leaves_the_lock_free(lock, timeout):
    """The release wakes the waiter, which has not yet acquired the GIL. interrupt_main() does not wake a thread."""
    waits = threading.Event()

    def interrupt():
        waits.wait()
        time.sleep(0.1)  # until the main thread waits; if it does not yet, nothing is tested
        _thread.interrupt_main()

    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    other = hold(lock, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            waits.set()
            lock.acquire(timeout=timeout)
    finally:
        other.join()
        signal.signal(signal.SIGINT, usual)
    assert not lock._is_owned()


# --- forks ------------------------------------------------------------------------------------------------------------

HOLD = """
from hwheel.purgatory import DelayedOperation
from hwheel_core import RLock

def in_thread(function):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function()), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "the thread hangs"
    return answers[0]

def hold(lock):
    # Acquire the lock in another thread. Return an event that makes the thread release it.
    held, release = threading.Event(), threading.Event()
    def body():
        with lock, lock:
            held.set()
            release.wait(60)
    threading.Thread(target=body, daemon=True).start()
    assert held.wait(60)
    return release

"""
FORKS = {
    "a lock that another thread holds is free in the child": """
locks, free = [make() for _ in range(4)], make()
releases = [hold(lock) for lock in locks]
waits = threading.Thread(target=lambda: locks[0].acquire(), daemon=True)
waits.start()
time.sleep(0.05)        # until it waits for the lock; the test also passes if it does not yet

def child():
    if make is RLock:
        assert locks[0]._renew() and not locks[0]._renew() and not free._renew()
    assert not locks[0]._is_owned()
    assert locks[0].acquire(timeout=30) and free.acquire(timeout=30)
    # New threads with the identifiers of the former holders do not own the locks.
    for lock in locks[1:]:
        def use():
            assert not lock._is_owned()
            with lock:
                assert lock._is_owned()
                assert not in_thread(lambda: lock.acquire(False)), "two threads hold the lock"
            return not lock._is_owned()
        assert in_thread(use)

in_child(child)
assert not locks[0].acquire(False) and not locks[0]._is_owned()
for release in releases:
    release.set()
waits.join(60)
assert locks[1].acquire(timeout=30)
""",
    "a release in the child wakes its waiters": """
lock = make()
with lock:
    parents = [threading.Thread(target=lambda: lock.acquire(timeout=30), daemon=True) for _ in range(3)]
    for thread in parents:
        thread.start()
    time.sleep(0.05)

    def child():
        assert lock._is_owned(), "the forking thread lost its lock"
        if make is RLock:
            assert not lock._renew()
        taken = []
        def wait():
            with lock:
                taken.append(1)
        threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        assert not taken
        lock.release()
        for thread in threads:
            thread.join(30)
        assert len(taken) == 3, taken
        lock.acquire()

    in_child(child)
""",
    "a grandchild that another thread forked": """
first, second, own = make(), make(), make()

def child():
    hold(second)
    def fork_again():
        def grandchild():
            assert own.acquire(timeout=30), "the owner is not in the grandchild"
            assert second.acquire(timeout=30), "the holder is not in the grandchild"
            assert first.acquire(timeout=30)
            assert third._is_owned()
            third.release()
            assert not third._is_owned()
        third = make()
        with third:
            in_child(grandchild)
        return True
    assert in_thread(fork_again)

hold(first)
with own:
    in_child(child)
""",
}


@needs_fork
@pytest.mark.parametrize("make", ["RLock", "lambda: DelayedOperation(60_000).lock"], ids=["RLock", "operation"])
@pytest.mark.parametrize("case", FORKS)
def test_lock_after_a_fork(ends_well, case, make):
    ends_well(f"{HOLD}make = {make}\n{FORKS[case]}")
