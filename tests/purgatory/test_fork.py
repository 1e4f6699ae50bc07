"""Locks across a fork: what a thread held that did not come along is free, what the thread that forked holds is its
own."""

import os

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

OPERATIONS = """
import contextlib
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory, ThresholdPurgatory

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

@contextlib.contextmanager
def in_parent_and_child(pid):
    # For what both go through after a fork that returned this pid. The child ends with it, and must end well.
    try:
        yield
    except BaseException:
        if pid != 0:
            raise
        traceback.print_exc()
        os._exit(1)
    if pid == 0:
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
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


def test_a_signal_handler_that_forks_while_its_thread_waits_for_the_lock(run_script):
    answer = run_script(
        OPERATIONS
        + """
op = Op(60_000)
let_go = hold(op.lock)
pids = []
signal.signal(signal.SIGALRM, lambda *_: pids.append(os.fork()))
signal.setitimer(signal.ITIMER_REAL, 0.1)
threading.Timer(1, let_go.set).start()
completed = op.force_complete()         # waits; the child, for somebody who is not there
if pids[0] == 0:
    os._exit(5 if completed else 6)
give_up = time.monotonic() + 60
while (ended := os.waitpid(pids[0], os.WNOHANG))[0] == 0 and time.monotonic() < give_up:
    time.sleep(0.01)
if ended[0] == 0:
    os.kill(pids[0], signal.SIGKILL)
assert completed and os.waitstatus_to_exitcode(ended[1]) == 5, ended
"""
    )
    assert answer == (0, "", "")


def test_a_key_whose_comparison_forks_leaves_the_childs_purgatory_with_a_lock_that_is_given_up(run_script):
    answer = run_script(
        OPERATIONS
        + """
class Key:
    forks = False
    def __hash__(self):
        return 7
    def __eq__(self, other):
        if Key.forks:
            Key.forks = False
            pids.append(os.fork())
        return self is other

pids = []
first, second = Key(), Key()
with ManualTimer() as timer:
    purgatory = DelayedOperationPurgatory("forks", timer)
    waiting = Op(60_000)
    waiting.ready = False
    purgatory.try_complete_else_watch(waiting, [first])
    Key.forks = True
    assert purgatory.check_and_complete(second) == 0
    if pids[0] == 0:
        signal.alarm(60)
        try:
            assert purgatory.watched == 0
            for _ in range(3):
                op = Op(60_000)
                op.ready = False
                in_thread(lambda: purgatory.try_complete_else_watch(op, ["key"]))
                op.ready = True
                assert in_thread(lambda: purgatory.check_and_complete("key")) == 1
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pids[0], 0)[1] == 0
    assert purgatory.watched == 1
    purgatory.close()
"""
    )
    assert answer == (0, "", "")


def test_thresholds_whose_comparison_forks_or_stands_still_at_the_fork(run_script):
    answer = run_script(
        OPERATIONS
        + """
class Number:
    at = None
    def __init__(self, number):
        self.number = number
    def __lt__(self, other):
        if Number.at is not None:
            at, Number.at = Number.at, None
            at()
        return self.number < other.number

with ManualTimer() as timer:
    thresholds = ThresholdPurgatory("forks", timer)
    parents = [thresholds.await_(Number(number), 60_000) for number in range(5)]

    def use():
        thresholds.maybe_complete(Number(9))        # what waits is the parent's
        mine = thresholds.await_(Number(3), 60_000)
        thresholds.maybe_complete(Number(2))
        assert not mine.done()
        thresholds.maybe_complete(Number(3), 8)
        return mine.result() == 8

    pids = []
    Number.at = lambda: pids.append(os.fork())
    thresholds.maybe_complete(Number(1), 7)
    if pids[0] == 0:
        signal.alarm(60)
        os._exit(0 if in_thread(use) else 1)
    assert os.waitpid(pids[0], 0)[1] == 0
    assert [future.done() for future in parents] == [True, True, False, False, False]

    inside, go_on = threading.Event(), threading.Event()
    Number.at = lambda: (inside.set(), go_on.wait(60))
    compares = threading.Thread(target=lambda: thresholds.maybe_complete(Number(2), 7), daemon=True)
    compares.start()
    assert inside.wait(60)
    in_child(lambda: in_thread(use) or os._exit(1))
    go_on.set()
    compares.join(60)
    assert [future.done() for future in parents] == [True, True, True, False, False]
    thresholds.close()
"""
    )
    assert answer == (0, "", "")


def test_an_operation_whose_look_forks_is_added_in_the_child_too_and_counted_there(run_script):
    answer = run_script(
        OPERATIONS
        + """
class Forks(DelayedOperation):
    looks, at, pid, ran = 0, 0, None, None
    def try_complete(self):
        self.looks += 1
        if self.looks == self.at:
            self.pid = os.fork()
        return False
    def on_complete(self):
        self.ran = os.getpid()

for at in 1, 2:
    for keys in ["a"], ["a", "b", "c"]:
        timer = ManualTimer()
        purgatory = DelayedOperationPurgatory("forks", timer)
        op = Forks(10)
        op.at = at
        assert not purgatory.try_complete_else_watch(op, keys)
        with in_parent_and_child(op.pid):
            stats = purgatory.stats()
            assert (stats.watched, stats.delayed) == (len(keys), 1) and len(timer) == 1, (at, keys, op.pid, stats)
            assert all(purgatory.check_and_complete(key) == 0 for key in keys)
            timer.advance(0.02)
            assert op.is_completed and op.ran == os.getpid()
            stats = purgatory.stats()
            assert (stats.delayed, stats.completed, stats.expired) == (0, 1, 1), (at, keys, op.pid, stats)
            purgatory.purge()
            assert purgatory.watched == 0 and purgatory.close() == [] and timer.close() == []
"""
    )
    assert answer == (0, "", "")


def test_an_operation_one_of_whose_keys_forks_is_added_in_the_child_too_and_counted_there(run_script):
    answer = run_script(
        OPERATIONS
        + """
class Key:
    forks, pid, number = False, None, 0
    def __hash__(self):
        return 7
    def __eq__(self, other):
        if Key.forks:
            Key.number -= 1
            if Key.number == 0:
                Key.pid = os.fork()
        return self is other

for number in range(1, 12):
    Key.pid, Key.number, Key.forks = None, number, False
    timer = ManualTimer()
    purgatory = DelayedOperationPurgatory("forks", timer)
    first, keys = Op(60_000), [Key() for _ in range(3)]
    first.ready = False
    purgatory.try_complete_else_watch(first, [Key()])
    op = Op(60_000)
    op.ready = False
    Key.forks = True
    assert not purgatory.try_complete_else_watch(op, keys)
    Key.forks = False
    if Key.pid is None:
        break
    with in_parent_and_child(Key.pid):
        kid = Key.pid == 0
        stats = purgatory.stats()
        assert (stats.watched, stats.delayed) == ((3, 1) if kid else (4, 2)), (number, kid, stats)
        op.ready = True
        assert purgatory.check_and_complete(keys[2]) == 1
        assert purgatory.close() == ([] if kid else [first])
assert number > 3, number
"""
    )
    assert answer == (0, "", "")


def test_a_future_whose_comparison_forks_waits_in_the_child_too(run_script):
    answer = run_script(
        OPERATIONS
        + """
class Number:
    forks, pid, left = False, None, 0
    def __init__(self, number):
        self.number = number
    def compare(self):
        if Number.forks:
            Number.left -= 1
            if Number.left == 0:
                Number.pid = os.fork()
    def __lt__(self, other):
        self.compare()
        return self.number < other.number
    def __ne__(self, other):
        self.compare()
        return False

for left in range(1, 20):
    for reached in False, True:
        Number.pid, Number.left, Number.forks = None, left, False
        timer = ManualTimer()
        thresholds = ThresholdPurgatory("forks", timer)
        parents = [thresholds.await_(Number(number), 10) for number in (5, 6, 7)]
        Number.forks = True
        future = thresholds.await_(Number(1), 10)
        Number.forks = False
        if Number.pid is None:
            break
        with in_parent_and_child(Number.pid):
            assert thresholds.num_waiting == (1 if Number.pid == 0 else 4)
            if reached:
                thresholds.maybe_complete(Number(1), 7)
                assert future.result(0) == 7
            else:
                timer.advance(0.02)
                assert isinstance(future.exception(0), TimeoutError)
            assert len(timer) == (3 if reached and Number.pid else len(timer)) and not future.cancelled()
            thresholds.close()
assert left > 2
"""
    )
    assert answer == (0, "", "")
