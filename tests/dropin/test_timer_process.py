"""Timers at the end of the interpreter, and across a fork, as with the standard ones."""

import os

import pytest

BOTH = pytest.mark.parametrize("module", ["threading", "hwheel"])


@pytest.fixture
def late_threads(run_script):
    """Python 3.12.0 and 3.12.1 start no thread once the main one has come to its end; those before and after do."""
    _, printed, _ = run_script(
        """
def work():
    threading.main_thread().join()
    time.sleep(0.1)
    threading.Thread(target=print, args=["started"]).start()

threading.Thread(target=work).start()
"""
    )
    if not printed:
        pytest.skip("this Python starts no thread at exit, so no timer of either kind")


FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@BOTH
def test_the_interpreter_waits_for_a_pending_timer(run_script, module):
    answer = run_script(
        f"""
from {module} import Timer
begin = time.monotonic()

def run():
    print("ran", time.monotonic() - begin >= 1)

Timer(1, run).start()
print("end of the program")
"""
    )
    assert answer == (0, "end of the program\nran True\n", "")


@BOTH
def test_the_interpreter_does_not_wait_for_a_daemon(run_script, module):
    answer = run_script(
        f"""
from {module} import Timer
timer = Timer(1000, print, ["never"])
timer.daemon = True
timer.start()
print("end of the program")
"""
    )
    assert answer == (0, "end of the program\n", "")


@BOTH
@pytest.mark.parametrize("daemon", [False, True])
def test_a_function_that_is_running_at_exit(run_script, module, daemon):
    """The interpreter waits for it, if its timer is no daemon."""
    answer = run_script(
        f"""
from {module} import Timer
entered = threading.Event()

def run():
    entered.set()
    time.sleep(0.5 if not {daemon} else 1000)
    print("it ran to its end")

timer = Timer(0, run)
timer.daemon = {daemon}
timer.start()
assert entered.wait(60)
"""
    )
    assert answer == (0, "" if daemon else "it ran to its end\n", "")


@BOTH
def test_timers_that_functions_start_during_the_exit_are_waited_for(run_script, late_threads, module):
    answer = run_script(
        f"""
from {module} import Timer

def count(n):
    print(n)
    if n:
        Timer(0.05, count, [n - 1]).start()

Timer(0.05, count, [5]).start()
"""
    )
    assert answer == (0, "5\n4\n3\n2\n1\n0\n", "")


def test_a_timer_on_its_way_from_the_wheel_to_a_thread_is_waited_for(run_script):
    """It is neither pending nor running at that moment, which is made long here."""
    answer = run_script(
        """
import hwheel.threading
from hwheel import Timer
Timer(0, int).start()
engine = hwheel.threading._engine
submit, on_its_way = engine.submit, threading.Event()

def slow_submit(job, daemon):
    on_its_way.set()
    time.sleep(0.5)
    submit(job, daemon)

engine.submit = slow_submit
Timer(0.01, print, ["ran"]).start()
assert on_its_way.wait(60)
"""
    )
    assert answer == (0, "ran\n", "")


@BOTH
def test_timers_of_another_thread_that_outlives_the_main_one(run_script, late_threads, module):
    answer = run_script(
        f"""
from {module} import Timer

def work():
    threading.main_thread().join()
    time.sleep(0.2)
    Timer(0.2, print, ["ran"]).start()

threading.Thread(target=work).start()
Timer(0, int).start()
"""
    )
    assert answer == (0, "ran\n", "")


@BOTH
def test_a_cancel_during_the_exit_ends_the_wait(run_script, module):
    answer = run_script(
        f"""
from {module} import Timer
far_off = [Timer(1000, print, ["never"]) for _ in range(100)]
for timer in far_off:
    timer.start()

def cancel():
    for timer in far_off:
        timer.cancel()

Timer(0.1, cancel).start()
"""
    )
    assert answer == (0, "", "")


def test_many_daemons_pending_and_falling_due_at_exit(run_script):
    for _ in range(3):
        answer = run_script(
            """
from hwheel import Timer
for i in range(20_000):
    timer = Timer(i / 40_000, time.sleep, [0.001 * (i % 3)])
    timer.daemon = True
    timer.start()
time.sleep(0.1)
"""
        )
        assert answer == (0, "", "")


def test_repeating_timer_at_exit(run_script):
    """A run() of its own keeps the interpreter as any thread does, or does not."""
    answer = run_script(
        """
from hwheel import Timer

class Repeat(Timer):
    def run(self):
        while not self.finished.wait(self.interval):
            self.function(*self.args)

daemon = Repeat(0.01, int)
daemon.daemon = True
daemon.start()
left = [3]

def tick():
    left[0] -= 1
    print(left)
    if not left[0]:
        other.cancel()

other = Repeat(0.01, tick)
other.start()
"""
    )
    assert answer == (0, "[2]\n[1]\n[0]\n", "")


def test_a_start_in_an_exit_handler_is_served_or_refused(run_script):
    answer = run_script(
        """
import atexit
from hwheel import Timer

@atexit.register
def late():
    ran = threading.Event()
    try:
        Timer(0.01, ran.set).start()
        print("ran", ran.wait(60))
    except RuntimeError as error:
        print("refused")

Timer(0, int).start()
"""
    )
    assert answer in [(0, "ran True\n", ""), (0, "refused\n", "")]


@FORK
@BOTH
def test_the_child_of_a_fork_has_none_of_the_timers_and_can_have_its_own(run_script, module):
    answer = run_script(
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
    threads = [Timer(0, time.sleep, [0.05]) for _ in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
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
    assert answer == (0, "", "")


@FORK
@BOTH
def test_a_child_that_exits_normally_waits_for_its_own_timers_alone(run_script, module):
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


@FORK
def test_a_fork_inside_a_function(run_script):
    """The thread of the function is the child's main thread, and ends with it."""
    answer = run_script(
        """
from hwheel import Timer

def fork():
    pid = os.fork()
    if pid == 0:
        assert timer.is_alive()
        inner = Timer(0.01, print, ["in the child"], dict(flush=True))
        assert not inner.daemon
        inner.start()
        inner.join()
        os._exit(5)
    print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)

timer = Timer(0.01, fork)
timer.start()
timer.join()
"""
    )
    assert answer == (0, "in the child\nchild 5\n", "")


@FORK
@BOTH
def test_a_child_of_a_function_that_just_returns_ends(run_script, module):
    answer = run_script(
        f"""
from {module} import Timer
pids = []
timer = Timer(0.01, lambda: pids.append(os.fork()))
timer.start()
timer.join()
print(os.waitpid(pids[0], 0)[0] == pids[0])
"""
    )
    assert answer == (0, "True\n", "")


@FORK
def test_forks_while_other_threads_use_timers(run_script):
    answer = run_script(
        """
from hwheel import Timer
sys.setswitchinterval(1e-5)
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
    assert answer == (0, "", "")


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
