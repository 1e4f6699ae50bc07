"""The operations' lock: waiters, interrupts, and forks."""

import _thread
import os
import signal
import threading
import time

import pytest

from standard_locks import check_that_it_refuses_what_an_rlock_does
from threads import call_in_thread


def test_lock_excludes_threads_and_starves_none(flagged, run_threads, many_switches):
    operation = flagged()
    inside = []
    entries = []

    def play():
        for _ in range(300):
            with operation.lock, operation.lock:
                inside.append(None)
                assert len(inside) == 1
                time.sleep(0)  # lets other threads reach the lock
                inside.pop()
                entries.append(None)

    run_threads([play] * 6)
    assert len(entries) == 1800


def test_waiters_with_and_without_a_timeout_acquire_the_lock(flagged, eventually):
    operation = flagged()
    taken = []

    def wait(timeout):
        lock = operation.lock
        taken.append((timeout, lock.acquire(timeout=timeout)))
        if taken[-1][1]:
            lock.release()

    threads = [threading.Thread(target=wait, args=(timeout,)) for timeout in (0.01, -1, 100, -1, 0)]
    with operation.lock:
        for thread in threads:
            thread.start()
        eventually(lambda: len(taken) == 2)
    for thread in threads:
        thread.join(60)
    assert sorted(taken) == [(-1, True), (-1, True), (0, False), (0.01, False), (100, True)]


def test_lock_has_the_arguments_and_errors_of_an_rlock(flagged):
    lock = flagged().lock
    check_that_it_refuses_what_an_rlock_does(lock)
    with lock:

        def release():
            with pytest.raises(RuntimeError):
                lock.release()
            return True

        assert call_in_thread(release)
        assert lock._is_owned()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer()")
def test_exception_of_a_signal_handler_ends_only_the_wait_of_the_main_thread(flagged):
    operation = flagged()
    held, go_on = threading.Event(), threading.Event()

    class Interrupted(BaseException):
        pass

    def interrupt(*_):
        raise Interrupted

    def hold():
        with operation.lock:
            held.set()
            go_on.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)
    usual = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(Interrupted):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            operation.force_complete()
    finally:
        signal.signal(signal.SIGALRM, usual)
    assert not operation.is_completed
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(operation.force_complete()))
    waiter.start()
    go_on.set()
    waiter.join(60)
    holder.join(60)
    assert answers == [True]


@pytest.mark.parametrize("timeout", [-1, 60])
def test_interrupt_between_the_release_and_the_wake_up_leaves_the_lock_free(flagged, timeout):
    """The release wakes the waiter, which has not yet acquired the GIL. interrupt_main() does not wake a thread."""
    operation = flagged()
    held, waits = threading.Event(), threading.Event()

    def hold():
        with operation.lock:
            held.set()
            waits.wait()
            time.sleep(0.1)  # until the main thread waits; if it does not yet, nothing is tested
            _thread.interrupt_main()

    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    other = threading.Thread(target=hold)
    try:
        other.start()
        held.wait()
        with pytest.raises(KeyboardInterrupt):
            waits.set()
            operation.lock.acquire(timeout=timeout)
    finally:
        other.join()
        signal.signal(signal.SIGINT, usual)
    assert not operation.lock._is_owned()


def test_duplicates_of_many_keys_count_once(purgatory, flagged):
    operation = flagged()
    purgatory.try_complete_else_watch(operation, [*range(50_000), *range(50_000)])
    assert purgatory.watched == 50_000
    operation.force_complete()
    assert purgatory.purge() == 50_000


def test_error_in_a_key_comparison_is_raised_and_leaves_nothing_watched(purgatory, flagged):
    class Breaks:
        broken = False

        def __hash__(self):
            return hash("key")

        def __eq__(self, other):
            if self.broken:
                raise ZeroDivisionError
            return self is other

    purgatory.try_complete_else_watch(flagged(), ["key"])
    bad = Breaks()
    bad.broken = True
    with pytest.raises(ZeroDivisionError):
        purgatory.try_complete_else_watch(flagged(), ["other", bad])
    assert (purgatory.watched, purgatory.num_delayed) == (1, 1)
    with pytest.raises(ZeroDivisionError):
        purgatory.check_and_complete(bad)
    bad.broken = False
    assert purgatory.try_complete_else_watch(flagged(completable=False), [bad]) is False
    assert purgatory.watched == 2


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

OPERATIONS = """
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory

class Op(DelayedOperation):
    ready = True
    def try_complete(self):
        return self.ready and self.force_complete()
    def on_complete(self):
        pass

def in_thread(function):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function()), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "the thread hangs"
    return answers[0]

def hold(lock):
    # Let another thread take the lock. Return the event that makes it release the lock.
    held, release = threading.Event(), threading.Event()
    def body():
        with lock, lock:
            held.set()
            release.wait(60)
    threading.Thread(target=body, daemon=True).start()
    assert held.wait(60)
    return release
"""


@needs_fork
def test_lock_held_by_another_thread_is_free_in_the_child(run_script):
    answer = run_script(
        OPERATIONS
        + """
ops = [Op(60_000) for _ in range(4)]
releases = [hold(op.lock) for op in ops]
waits = threading.Thread(target=lambda: ops[0].force_complete(), daemon=True)
waits.start()
time.sleep(0.05)        # until it waits for the lock; the test also passes if it does not yet

def child():
    assert not ops[0].lock._is_owned()
    assert ops[0].safe_try_complete()
    # New threads with the identifiers of the former holders do not own the locks.
    for op in ops[1:]:
        def use():
            assert not op.lock._is_owned()
            with op.lock:
                assert op.lock._is_owned()
                assert not in_thread(lambda: op.lock.acquire(False)), "two threads hold the lock"
            assert not op.lock._is_owned()
            return True
        assert in_thread(use)
        assert in_thread(op.force_complete)

in_child(child)
assert not ops[0].lock.acquire(False) and not ops[0].lock._is_owned()
for release in releases:
    release.set()
waits.join(60)
assert ops[0].is_completed and in_thread(ops[1].force_complete)
"""
    )
    assert answer == (0, "", "")


@needs_fork
def test_release_in_the_child_wakes_its_waiters_and_not_those_of_the_parent(run_script):
    answer = run_script(
        OPERATIONS
        + """
op = Op(60_000)
with op.lock:
    parents = [threading.Thread(target=lambda: op.lock.acquire(timeout=30), daemon=True) for _ in range(3)]
    for thread in parents:
        thread.start()
    time.sleep(0.05)

    def child():
        assert op.lock._is_owned(), "the forking thread lost its lock"
        taken = []
        def wait():
            with op.lock:
                taken.append(1)
        threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        assert not taken
        op.lock.release()
        for thread in threads:
            thread.join(30)
        assert len(taken) == 3, taken
        op.lock.acquire()

    in_child(child)
"""
    )
    assert answer == (0, "", "")


@needs_fork
def test_grandchild_forked_by_another_thread(run_script):
    answer = run_script(
        OPERATIONS
        + """
first, second, own = Op(60_000), Op(60_000), Op(60_000)

def child():
    hold(second.lock)
    def fork_again():
        def grandchild():
            assert own.lock.acquire(timeout=30), "the owner is not in the grandchild"
            assert second.lock.acquire(timeout=30), "the holder is not in the grandchild"
            assert first.lock.acquire(timeout=30)
            assert third.lock._is_owned()
            third.lock.release()
            assert not third.lock._is_owned()
        third = Op(60_000)
        with third.lock:
            in_child(grandchild)
        return True
    assert in_thread(fork_again)

hold(first.lock)
with own.lock:
    in_child(child)
"""
    )
    assert answer == (0, "", "")
