"""Timers after a fork: as with the standard ones, the child has none of its parent's, and can start its own."""

import os

import pytest

BOTH = pytest.mark.parametrize("module", ["threading", "hwheel"])
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@BOTH
def test_the_child_has_no_timers_of_its_parent_and_can_start_its_own(ends_well, module):
    ends_well(
        f"""
from {module} import Timer
pid = os.getpid()
ran = []

def run(what):
    ran.append((os.getpid(), what))

entered, leave = threading.Event(), threading.Event()
pending = Timer(1, run, ["pending"])
daemon = Timer(1, run, ["daemon"])
daemon.daemon = True
running = Timer(0, lambda: (entered.set(), leave.wait(60)))
timers = [pending, daemon, running]
for timer in timers:
    timer.start()
assert entered.wait(60)

def child():
    for timer in timers:
        assert not timer.is_alive(), timer
        timer.join()
        timer.cancel()
        timer.join(1)
    own = Timer(0.01, run, ["own"])
    own.start()
    own.join()
    assert own.finished.is_set() and not own.is_alive()
    time.sleep(1.2)
    assert ran == [(os.getpid(), "own")], ran
    assert os.getpid() != pid

in_child(child)
assert running.is_alive()
leave.set()
for timer in timers:
    timer.join()
assert sorted(ran) == [(pid, "daemon"), (pid, "pending")], ran
"""
    )


@BOTH
def test_at_exit_the_child_waits_only_for_its_own_timers(run_script, module):
    answer = run_script(
        f"""
from {module} import Timer
faulthandler.cancel_dump_traceback_later()      # a child with this set hangs in its own exit
parents = Timer(1, print, ["the parent's"], dict(flush=True))
parents.start()
pid = os.fork()
if pid == 0:
    Timer(0.1, print, ["the child's"], dict(flush=True)).start()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
"""
    )
    assert answer == (0, "the child's\nthe parent's\n", "")


@pytest.mark.parametrize("daemon", [False, True])
@pytest.mark.parametrize("own_run", [False, True])
@BOTH
def test_a_child_whose_function_returns_ends_after_its_own_timers(run_script, module, own_run, daemon):
    answer = run_script(
        f"""
from {module} import Timer

class Own(Timer):
    def run(self):
        self.function()

began = time.monotonic()
pids = []

def fork():
    pid = os.fork()
    if pid:
        pids.append(pid)
        return
    assert timer.is_alive()
    for seconds in 0.01, 0.1:
        pending = Timer(seconds, print, [seconds], dict(flush=True))
        pending.daemon = False
        pending.start()
    if {module != "threading"}:     # the thread of a standard timer would keep the child alive, also a daemon
        late = Timer(3600, print, ["never"])
        late.daemon = True
        late.start()

timer = {"Own" if own_run else "Timer"}(0.01, fork)
timer.daemon = {daemon}
timer.start()
timer.join()
give_up = time.monotonic() + 30
while not (ended := os.waitpid(pids[0], os.WNOHANG))[0]:
    if time.monotonic() > give_up:
        os.kill(pids[0], 9)
    time.sleep(0.01)
print(os.waitstatus_to_exitcode(ended[1]))
"""
    )
    assert answer == (0, "0.01\n0.1\n0\n", "")


def test_forks_while_other_threads_use_timers(ends_well):
    ends_well(
        """
from hwheel import Timer
sys.setswitchinterval(1e-5)
threading.settrace(None)        # a thread that coverage.py traces may hold its lock at a fork
stop = threading.Event()

def use():
    while not stop.is_set():
        timers = [Timer(i % 3 / 1000, int) for i in range(20)]
        for timer in timers:
            timer.start()
            timer.name, timer.finished
        for timer in timers[::2]:
            timer.cancel()
        for timer in timers:
            timer.join()

threads = [threading.Thread(target=use) for _ in range(3)]
for thread in threads:
    thread.start()

def child():
    timers = [Timer(0.002, int) for _ in range(5)]
    for timer in timers:
        timer.start()
        timer.name, timer.finished
    for timer in timers:
        timer.join()

for _ in range(20):
    in_child(child)
stop.set()
"""
    )


def test_a_multiprocessing_child_waits_for_its_timers(run_script):
    answer = run_script(
        """
import multiprocessing
from hwheel import Timer

def work():
    Timer(0.2, print, ["ran in the child"], dict(flush=True)).start()

if __name__ == "__main__":
    Timer(0, int).start()
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
    print(child.exitcode)
"""
    )
    assert answer == (0, "ran in the child\n0\n", "")
