"""The operations' lock where threads wait for it: none is forgotten, however the wait ends. What keeps what alive."""

import _thread
import signal
import threading
import time

import pytest

from standard_locks import check_that_it_refuses_what_an_rlock_does


def test_many_threads_hold_it_one_at_a_time_and_all_of_them_come_through(flagged, run_threads, many_switches):
    operation = flagged()
    inside = []
    entries = []

    def play():
        for _ in range(300):
            with operation.lock, operation.lock:
                inside.append(None)
                assert len(inside) == 1
                time.sleep(0)  # others come to the lock
                inside.pop()
                entries.append(None)

    run_threads([play] * 6)
    assert len(entries) == 1800


def test_threads_that_wait_with_and_without_a_timeout_get_it_when_it_is_free(flagged, eventually):
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


def test_its_arguments_and_errors_are_those_of_an_rlock(flagged):
    lock = flagged().lock
    check_that_it_refuses_what_an_rlock_does(lock)
    with lock:
        failed = []

        def release():
            with pytest.raises(RuntimeError):
                lock.release()
            failed.append(True)

        thread = threading.Thread(target=release)
        thread.start()
        thread.join(60)
        assert failed
        assert lock._is_owned()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that send signals")
def test_a_signal_handler_that_raises_ends_the_wait_of_the_main_thread_and_no_one_elses(flagged):
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


# --- references --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [-1, 60])
def test_an_interruption_between_the_release_and_the_turn_of_who_waits_leaves_the_lock_free(flagged, timeout):
    """The thread that is woken has yet to get the GIL, say. An interrupt_main() wakes nobody: the release does."""
    operation = flagged()
    held, waits = threading.Event(), threading.Event()

    def hold():
        with operation.lock:
            held.set()
            waits.wait()
            time.sleep(0.1)  # until it does; later no harm is done, but nothing is tested
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


def test_very_many_keys_each_given_twice_count_once(purgatory, flagged):
    operation = flagged()
    purgatory.try_complete_else_watch(operation, [*range(50_000), *range(50_000)])
    assert purgatory.watched == 50_000
    operation.force_complete()
    assert purgatory.purge() == 50_000


def test_an_error_in_the_comparison_of_a_key_is_the_adders_and_leaves_nothing_watched(purgatory, flagged):
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
