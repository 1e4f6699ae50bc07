"""The core's RLock: it behaves like threading.RLock, and it is usable after a fork."""

import os
import threading

import pytest

from hwheel_core import RLock
from standard_locks import check_that_it_refuses_what_an_rlock_does


def test_arguments_and_errors_equal_those_of_threading():
    ours = RLock()
    check_that_it_refuses_what_an_rlock_does(ours)
    assert ours.acquire(timeout=0.0) is ours.acquire(False) is ours.acquire(blocking=True) is True
    for _ in range(3):
        ours.release()
    assert not ours._is_owned()


def test_one_thread_holds_the_lock_and_can_acquire_it_again():
    lock, inside, most = RLock(), [], []

    def play():
        for _ in range(2_000):
            with lock, lock:
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=play) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(most) == 8_000 and max(most) == 1
    assert not lock._is_owned() and lock.acquire(False)


def test_acquire_returns_after_its_timeout():
    lock = RLock()
    with lock:
        answers = []
        thread = threading.Thread(target=lambda: answers.extend([lock.acquire(timeout=0.01), lock.acquire(False)]))
        thread.start()
        thread.join(60)
    assert answers == [False, False]


HOLD = """
def hold(lock):
    # Acquire the lock in another thread. Return an event that makes the thread release it.
    held, release = threading.Event(), threading.Event()
    def body():
        with lock:
            held.set()
            release.wait(60)
    threading.Thread(target=body, daemon=True).start()
    assert held.wait(60)
    return release
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_the_child_keeps_only_the_locks_of_the_thread_that_forked(run_script):
    answer = run_script(
        HOLD
        + """
from hwheel_core import RLock
mine, others, free = RLock(), RLock(), RLock()
release = hold(others)
with mine:
    def child():
        assert mine._is_owned() and not mine._renew()
        mine.release()
        mine.acquire()
        assert others._renew() and not others._renew()
        assert others.acquire(timeout=30) and free.acquire(timeout=30)
        assert not free._renew()
    in_child(child)
assert not others.acquire(False)
release.set()
assert others.acquire(timeout=30)
"""
    )
    assert answer == (0, "", "")


# In each program, wait() waits in the main thread for a lock that another thread holds, and then returns 7.
WAITS = {
    "a scheduler": """
from hwheel import sched
scheduler = sched.scheduler()
scheduler.enter(0, 1, int)
lock = scheduler._lock
def wait():
    ran = []
    scheduler.enter(0, 1, ran.append, (7,))
    scheduler.run()
    return ran[0]
""",
    "the first Timer": """
import hwheel
from hwheel.threading import timer as module
lock = module._creating
def wait():
    timer = hwheel.Timer(0, int)
    timer.start()
    timer.join()
    return 7
""",
    "a recorder": """
import tempfile
from hwheel.recorder import Recorder, RecordingTimer
recorder = Recorder(tempfile.mkdtemp())
timer = RecordingTimer(recorder, fork="keep")
lock = timer._noting
def wait():
    task = timer.call_later(60, int)
    task.reschedule(30)
    timer.close()
    recorder.close()
    return 7
""",
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("subject", WAITS)
def test_a_wait_for_a_lock_goes_on_in_the_child_of_a_signal_handler(subject, run_script):
    if subject == "a recorder":
        pytest.importorskip("pyarrow")
    answer = run_script(
        HOLD
        + WAITS[subject]
        + """
release = hold(lock)
pids = []
signal.signal(signal.SIGALRM, lambda *_: pids.append(os.fork()))
signal.setitimer(signal.ITIMER_REAL, 0.1)
threading.Timer(1, release.set).start()
outcome = wait()        # in the child, the thread that holds the lock does not exist
while not pids:
    time.sleep(0.01)    # wait() returned before the signal
if pids[0] == 0:
    os._exit(outcome)
give_up = time.monotonic() + 60
while (ended := os.waitpid(pids[0], os.WNOHANG))[0] == 0 and time.monotonic() < give_up:
    time.sleep(0.01)
if ended[0] == 0:
    os.kill(pids[0], signal.SIGKILL)
assert outcome == 7 and os.waitstatus_to_exitcode(ended[1]) == 7, (outcome, ended)
"""
    )
    assert answer == (0, "", "")
