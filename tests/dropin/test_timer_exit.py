"""Timers at the interpreter's exit, which waits for non-daemon timers as for the standard ones."""

import sys
from pathlib import Path

import pytest

# name -> (program, its output), for the standard Timer and for hwheel's
PROGRAMS = {
    "a pending timer": (
        """
begin = time.monotonic()

def run():
    print("ran", time.monotonic() - begin >= 1)

Timer(1, run).start()
print("end of the program")
""",
        "end of the program\nran True\n",
    ),
    "subclasses that override join() or is_alive()": (
        """
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
""",
        "ran JoinCancels\nran JoinFails\nran IsNeverAlive\n",
    ),
    "an overridden run()": (
        """
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
""",
        "[2]\n[1]\n[0]\n",
    ),
    "a pending daemon": (
        """
timer = Timer(1000, print, ["never"])
timer.daemon = True
timer.start()
print("end of the program")
""",
        "end of the program\n",
    ),
    "a running function": (
        """
def run():
    entered.set()
    time.sleep(0.5)
    print("it ran to its end")

entered = threading.Event()
Timer(0, run).start()
assert entered.wait(60)
""",
        "it ran to its end\n",
    ),
    "a running function of a daemon": (
        """
entered = threading.Event()
timer = Timer(0, lambda: (entered.set(), time.sleep(1000)))
timer.daemon = True
timer.start()
assert entered.wait(60)
""",
        "",
    ),
    "a cancel during the exit": (
        """
far_off = [Timer(1000, print, ["never"]) for _ in range(100)]
for timer in far_off:
    timer.start()

def cancel():
    for timer in far_off:
        timer.cancel()

Timer(0.1, cancel).start()
""",
        "",
    ),
}
# The same for programs that start threads during the exit.
LATE_PROGRAMS = {
    "timers that functions start": (
        """
def count(n):
    print(n)
    if n:
        Timer(0.05, count, [n - 1]).start()

Timer(0.05, count, [5]).start()
""",
        "5\n4\n3\n2\n1\n0\n",
    ),
    "timers of another thread that outlives the main one": (
        """
def work():
    threading.main_thread().join()
    time.sleep(0.2)
    Timer(0.2, print, ["ran"]).start()

threading.Thread(target=work).start()
Timer(0, int).start()
""",
        "ran\n",
    ),
}
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
@pytest.mark.parametrize("name", PROGRAMS)
def test_exit(run_script, name, module):
    program, printed = PROGRAMS[name]
    assert run_script(f"from {module} import Timer\n{program}") == (0, printed, "")


@BOTH
@pytest.mark.parametrize("name", LATE_PROGRAMS)
def test_exit_with_late_threads(run_script, late_threads, name, module):
    program, printed = LATE_PROGRAMS[name]
    assert run_script(f"from {module} import Timer\n{program}") == (0, printed, "")


def test_the_interpreter_waits_for_an_expired_timer_that_has_no_thread_yet(run_script):
    answer = run_script(
        """
import hwheel.threading
from hwheel import Timer
first = Timer(0, int)
first.start()
first.join()
pools = hwheel.threading.timer._engine._pools
on_its_way = threading.Event()

class SlowPool:
    def submit(self, job, pool=pools[False]):
        on_its_way.set()
        time.sleep(0.5)
        pool.submit(job)

    leave = pools[False].leave

pools[False] = SlowPool()
Timer(0.01, print, ["ran"]).start()
assert on_its_way.wait(60)
"""
    )
    assert answer == (0, "ran\n", "")


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


def test_a_struck_keeper_still_makes_the_exit_wait(run_script, late_threads):
    answer = run_script(
        """
sys.path[:0] = [HELPERS]
from strikes import strike
from hwheel import Timer

def late():
    threading.main_thread().join()
    time.sleep(0.2)
    Timer(0.5, print, ["ran"]).start()
    for keeper in [thread for thread in threading.enumerate() if thread.name == "keeper-Timer"]:
        for _ in range(3):
            strike(keeper.ident)
            time.sleep(0.05)

threading.excepthook = lambda args: print(args.exc_type.__name__)
threading.Thread(target=late).start()
Timer(0, int).start()
""".replace("HELPERS", repr(str(Path(__file__).parents[1] / "helpers")))
    )
    assert answer[0] == 0 and answer[2] == ""
    assert {*answer[1].splitlines()} == {"ran", "Strike"}
