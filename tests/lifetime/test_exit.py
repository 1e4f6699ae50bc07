"""The interpreter exits at once and silently, even if timers are pending or callbacks are running."""

import pytest

EXECUTORS = ["None", "'inline'"]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_exit_with_two_million_pending_timers(run_script, executor):
    answer = run_script(
        f"""
timer = SystemTimer(executor={executor})
tasks = [timer.call_later(600 + i % 5000, print, i) for i in range(1_000_000)]      # later than a slow machine needs
batch = timer.call_many(array("q", range(600_000, 1_600_000)), print)
del tasks[::2]                  # only the timer references half of them
print(len(timer))
"""
    )
    assert answer == (0, "2000000\n", "")


@pytest.mark.parametrize("ending", ["sys.exit(3)", "raise SystemExit(3)", "os._exit(3)"])
def test_exit_keeps_the_exit_code(run_script, ending):
    assert run_script(f"timer = SystemTimer()\ntimer.call_later(60, print)\n{ending}\n") == (3, "", "")


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    "callback",
    ["lambda: (entered.set(), time.sleep(1000))", "lambda: (entered.set(), spin())", "lambda: (entered.set(), lock())"],
    ids=["sleeping", "computing", "waiting for a lock"],
)
def test_exit_with_a_running_callback(ends_well, executor, callback):
    ends_well(
        f"""
entered = threading.Event()

def spin():
    while True:
        pass

def lock():
    mine = threading.Lock()
    mine.acquire()
    mine.acquire()

timer = SystemTimer(executor={executor})
for _ in range(1000):
    timer.call_later(60, print)
timer.call_later(0, {callback})
for _ in range(1000):
    timer.call_later(0.001, print, "waits behind the running callback, and never runs")
assert entered.wait(60)
"""
    )


@pytest.mark.parametrize("executor", EXECUTORS)
def test_exit_with_busy_callbacks(ends_well, executor):
    for _ in range(5):
        ends_well(
            f"""
timer = SystemTimer(executor={executor})

def go_on(i):
    timer.call_later(60, print).cancel()
    timer.call_many(array("q", [0, 1, 60_000]), len)
    timer.call_later(i % 2 / 1000, go_on, i + 1)

for i in range(20):
    timer.call_later(0, go_on, i)
timer.call_every(0.001, len, [])
time.sleep(0.1)
"""
        )


@pytest.mark.parametrize("attempt", range(5))
def test_exit_with_daemon_threads_that_add_and_cancel(ends_well, attempt):
    ends_well(
        f"""
sys.setswitchinterval(1e-5)
timer = SystemTimer()
inline = SystemTimer(executor="inline")

def tasks(timer):
    while True:
        timer.call_later(60, print).cancel()
        timer.call_later(0.001, int)

def batches(timer):
    delays = array("q", [1, 2, 60_000] * 1000)
    while True:
        timer.call_many(delays, len).cancel()

def guarded(loop, timer):
    try:
        loop(timer)
    except RuntimeError:        # TimerClosed, or at exit no thread can be started
        pass

for loop in (tasks, batches):
    for one in (timer, inline) * 3:
        threading.Thread(target=guarded, args=(loop, one), daemon=True).start()
time.sleep({0.1 + attempt / 20})
"""
    )


@pytest.mark.parametrize("attempt", range(5))
def test_exit_with_daemon_threads_that_create_and_close_timers(ends_well, attempt):
    ends_well(
        f"""
sys.setswitchinterval(1e-5)

def churn():
    try:
        while True:
            timer = SystemTimer()
            timer.call_later(60, print)
            timer.close()
    except RuntimeError:
        pass

for _ in range(6):
    threading.Thread(target=churn, daemon=True).start()
time.sleep({0.1 + attempt / 20})
"""
    )


def test_exit_with_daemon_threads_in_advance_clock(ends_well):
    ends_well(
        """
def advance(timer):
    timer.call_later(60, print)
    timer.advance_clock(1_000_000)

timers = [SystemTimer(executor=executor, reaper=False) for executor in (None, "inline")]
for timer in timers:
    threading.Thread(target=advance, args=(timer,), daemon=True).start()
eventually(lambda: all(len(timer) for timer in timers))
"""
    )


def test_exit_with_timers_in_reference_cycles(ends_well):
    ends_well(
        """
class Service:
    def __init__(self):
        self.timer = SystemTimer(on_error=self.failed)
        self.manual = ManualTimer(on_error=self.failed)
        self.wheel = TimingWheel()
        for timer in (self.timer, self.manual):
            self.task = timer.call_later(60, self.work, self)
            self.batch = timer.call_many(array("q", [60_000]), self.failed)
        self.wheel.add(TimerTask(5, self.work), 5000)

    def work(self, *args):
        print("never")

    failed = work

    def __del__(self):
        self.task.cancel()

services = [Service() for _ in range(50)]
"""
    )


def test_adds_in_exit_handlers_and_finalizers_succeed_or_raise(run_script):
    answer = run_script(
        """
import atexit
timer = SystemTimer()
timer.call_later(60, print)

@atexit.register
def late():                     # runs before the package's handler, which was registered earlier
    timer.call_later(60, print)
    print("added", len(timer))

class Late:
    def __del__(self, timer=timer):     # a default, because module globals may be gone
        try:
            timer.call_later(60, print)
        except RuntimeError as error:
            print(type(error).__name__)

keep = Late()
"""
    )
    assert answer == (0, "added 2\nTimerClosed\n", "")


@pytest.mark.parametrize("busy", [False, True])
def test_exit_with_an_unclosed_timer_on_an_executor(ends_well, busy):
    ends_well(
        f"""
from concurrent.futures import ThreadPoolExecutor
timer = SystemTimer(executor=ThreadPoolExecutor(2))
for i in range(3000):
    timer.call_later(i / 3000, time.sleep, 0.01 if {busy} else 0)
every = timer.call_every(0.001, int)
time.sleep(0.2)
"""
    )


def test_a_failed_exit_handler_does_not_stop_the_others(run_script):
    status, out, err = run_script(
        """
from hwheel.timers.lifecycle import follow_process

class Follower:
    def _at_exit(self):
        print("exit")
        raise ValueError("odd")

followers = [Follower(), Follower()]
for one in followers:
    follow_process(one)
timer = SystemTimer()
timer.call_later(60, print)
"""
    )
    assert (status, out) == (0, "exit\nexit\n")
    assert err.count("Traceback") == err.count("ValueError: odd") == 2


def test_an_add_in_a_callback_during_exit_raises_without_a_report(ends_well):
    ends_well("""
import threading, time
from hwheel import SystemTimer, TimerClosed
from hwheel.timers.lifecycle import follow_process
begun, ends, refused = threading.Event(), threading.Event(), threading.Event()

class Earlier:  # followed first, so its handler runs after the timer is closed
    def _at_exit(self):
        ends.set()
        assert refused.wait(20)
        time.sleep(0.2)  # an error of the callback would be reported in this time

earlier = Earlier()
follow_process(earlier)
timer = SystemTimer()

def add():
    begun.set()
    ends.wait(20)
    try:
        timer.call_later(1, print)
    except TimerClosed:
        refused.set()
        raise

timer.call_later(0, add)
assert begun.wait(20)
""")


def test_exit_with_pending_groups(run_script):
    ended = run_script(
        """
timer = SystemTimer()
group = timer.group()
for i in range(10_000):
    group.call_later(3600, print, group, i)
dropped = timer.group()
dropped.call_every(3600, print)
del dropped
print("end")
"""
    )
    assert ended == (0, "end\n", "")
