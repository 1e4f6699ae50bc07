"""The core's RLock: threading.RLock's face and errors, and right after a fork."""

import os
import threading

import pytest

from hwheel_core import RLock
from standard_locks import check_that_it_refuses_what_an_rlock_does


def test_its_arguments_and_errors_are_the_standard_librarys():
    ours = RLock()
    check_that_it_refuses_what_an_rlock_does(ours)
    assert ours.acquire(timeout=0.0) is ours.acquire(False) is ours.acquire(blocking=True) is True
    for _ in range(3):
        ours.release()
    assert not ours._is_owned()


def test_it_is_one_threads_at_a_time_and_that_threads_more_than_once():
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


def test_another_thread_waits_no_longer_than_it_said():
    lock = RLock()
    with lock:
        answers = []
        thread = threading.Thread(target=lambda: answers.extend([lock.acquire(timeout=0.01), lock.acquire(False)]))
        thread.start()
        thread.join(60)
    assert answers == [False, False]


HOLD = """
def hold(lock):
    # Has another thread take the lock, and returns what lets it go.
    held, let_go = threading.Event(), threading.Event()
    def body():
        with lock:
            held.set()
            let_go.wait(60)
    threading.Thread(target=body, daemon=True).start()
    assert held.wait(60)
    return let_go
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_child_has_what_the_thread_that_forked_had_and_nobody_else_anything(run_script):
    answer = run_script(
        HOLD
        + """
from hwheel_core import RLock
mine, others, free = RLock(), RLock(), RLock()
gone = hold(others)
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
gone.set()
assert others.acquire(timeout=30)
"""
    )
    assert answer == (0, "", "")


# Each waits, in the main thread, for a lock that another thread holds; the number is what it returns in the end.
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
    "what a Timer makes when needed": """
import hwheel
from hwheel.threading import timer as module
lock = module._making
def wait():
    assert hwheel.Timer(0, int).name
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("face", WAITS)
def test_a_signal_handler_that_forks_while_its_thread_waits_for(face, run_script):
    if face == "a recorder":
        pytest.importorskip("pyarrow")
    answer = run_script(
        HOLD
        + WAITS[face]
        + """
let_go = hold(lock)
pids = []
signal.signal(signal.SIGALRM, lambda *_: pids.append(os.fork()))
signal.setitimer(signal.ITIMER_REAL, 0.1)
threading.Timer(1, let_go.set).start()
outcome = wait()        # waits; the child, for somebody who is not there
while not pids:
    time.sleep(0.01)    # it had nothing to wait for: then this test is just easier
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
