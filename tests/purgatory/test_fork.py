"""Locks across a fork: what a thread held that did not come along is free, what the thread that forked holds is its
own."""

import os

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

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
    assert not thread.is_alive(), "it waits for ever"
    return answers[0]

def hold(lock):
    # Has another thread take the lock, and returns what lets it go.
    held, let_go = threading.Event(), threading.Event()
    def body():
        with lock, lock:
            held.set()
            let_go.wait(60)
    threading.Thread(target=body, daemon=True).start()
    assert held.wait(60)
    return let_go
"""


def test_an_operations_lock_that_another_thread_holds_is_free_in_the_child(run_script):
    answer = run_script(
        OPERATIONS
        + """
ops = [Op(60_000) for _ in range(4)]
gone = [hold(op.lock) for op in ops]
waits = threading.Thread(target=lambda: ops[0].force_complete(), daemon=True)
waits.start()
time.sleep(0.05)        # it stands in the queue of the lock; if not yet, this test is just easier

def child():
    assert not ops[0].lock._is_owned()
    assert ops[0].safe_try_complete()
    # Threads that are given the numbers of those that held them have no more right to them than others.
    for op in ops[1:]:
        def use():
            assert not op.lock._is_owned()
            with op.lock:
                assert op.lock._is_owned()
                assert not in_thread(lambda: op.lock.acquire(False)), "two have it"
            assert not op.lock._is_owned()
            return True
        assert in_thread(use)
        assert in_thread(op.force_complete)

in_child(child)
assert not ops[0].lock.acquire(False) and not ops[0].lock._is_owned()
for let_go in gone:
    let_go.set()
waits.join(60)
assert ops[0].is_completed and in_thread(ops[1].force_complete)
"""
    )
    assert answer == (0, "", "")


def test_whoever_waits_in_the_child_is_woken_though_others_waited_in_the_parent(run_script):
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
        assert op.lock._is_owned(), "the thread that forks has not lost it"
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


def test_a_childs_child_forked_by_another_thread(run_script):
    answer = run_script(
        OPERATIONS
        + """
first, second, own = Op(60_000), Op(60_000), Op(60_000)

def child():
    hold(second.lock)
    def fork_again():
        def grandchild():
            assert own.lock.acquire(timeout=30), "its owner stayed in the child"
            assert second.lock.acquire(timeout=30), "so did this one's"
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
