"""Timers at the interpreter's exit, which waits for non-daemon timers as for the standard ones."""

import sys

import pytest

BOTH = pytest.mark.parametrize("module", ["threading", "hwheel"])


@pytest.fixture
def late_threads(run_script):
    """Skip the test on Python 3.12.0 and 3.12.1, which start no thread after the end of the main thread."""
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
        pytest.skip("this Python starts no thread at exit")


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
def test_the_interpreter_waits_for_subclasses_that_override_join_or_is_alive(run_script, module):
    answer = run_script(
        f"""
from {module} import Timer

class JoinCancels(Timer):
    def join(self, timeout=None):
        self.cancel()
        super().join(timeout)

class JoinFails(Timer):
    def join(self, timeout=None):
        raise ValueError

class IsNeverAlive(Timer):
    def is_alive(self):
        return False

for number, cls in enumerate([JoinCancels, JoinFails, IsNeverAlive]):
    cls(0.5 + number / 10, print, ["ran", cls.__name__]).start()
"""
    )
    assert answer == (0, "ran JoinCancels\nran JoinFails\nran IsNeverAlive\n", "")


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
def test_the_interpreter_waits_for_timers_that_functions_start_during_exit(run_script, late_threads, module):
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


def test_the_interpreter_waits_for_an_expired_timer_that_has_no_thread_yet(run_script):
    answer = run_script(
        """
import hwheel.threading
from hwheel import Timer
first = Timer(0, int)
first.start()
first.join()
engine = hwheel.threading.timer._engine
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


def test_many_daemon_timers_that_expire_during_exit(run_script):
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


def test_timers_with_an_overridden_run_at_exit(run_script):
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


def test_a_keeper_that_still_waits_when_the_timer_is_closed_prints_nothing(run_script):
    answer = run_script(
        """
import atexit
import hwheel.threading
from hwheel import Timer

def keepers():
    return [thread for thread in threading.enumerate() if thread.name == "keeper-Timer"]

@atexit.register
def late():
    engine = hwheel.threading.timer._engine
    at_exit = engine.timer._at_exit
    engine.timer._at_exit = lambda: (at_exit(), [keeper.join(5) for keeper in keepers()], print("end", len(keepers())))
    try:
        Timer(3600, print, ["never"]).start()
    except RuntimeError as error:
        print("refused")

Timer(0, int).start()
"""
    )
    assert answer in [(0, "end 0\n", ""), (0, "refused\nend 0\n", "")]


@BOTH
@pytest.mark.parametrize("seconds", [0, 0.5])
def test_a_timer_of_an_exit_handler_that_does_not_wait_for_it(run_script, module, seconds):
    """The standard timer runs from Python 3.15 on, where the interpreter waits for threads after the exit handlers."""
    code, printed, errors = run_script(
        f"""
import atexit
from {module} import Timer

@atexit.register
def late():
    try:
        Timer({seconds}, print, ["ran\\n"], dict(end="")).start()
    except RuntimeError as error:
        print("refused")

Timer(0, int).start()
"""
    )
    assert (code, errors) == (0, "")
    if module == "threading" and sys.version_info >= (3, 15):
        assert printed == "ran\n"
    else:
        assert printed in ("ran\n", "", "refused\n")
