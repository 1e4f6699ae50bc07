"""Exit does not hang: the interpreter ends at once and silently, whatever is pending or running at that moment."""

import pytest

EXECUTORS = ["None", "'inline'"]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_with_a_million_tasks_and_a_million_bulk_timers_pending(run_script, executor):
    answer = run_script(
        f"""
timer = SystemTimer(executor={executor})
tasks = [timer.call_later(600 + i % 5000, print, i) for i in range(1_000_000)]      # beyond a slow machine's minute
batch = timer.call_many(array("q", range(600_000, 1_600_000)), print)
del tasks[::2]                  # half of them belong to nobody but the timer
print(len(timer))
"""
    )
    assert answer == (0, "2000000\n", "")


@pytest.mark.parametrize("ending", ["sys.exit(3)", "raise SystemExit(3)", "os._exit(3)"])
def test_the_exit_code_is_the_programs(run_script, ending):
    assert run_script(f"timer = SystemTimer()\ntimer.call_later(60, print)\n{ending}\n") == (3, "", "")


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    "callback",
    ["lambda: (entered.set(), time.sleep(1000))", "lambda: (entered.set(), spin())", "lambda: (entered.set(), lock())"],
    ids=["sleeping", "computing", "waiting for a lock"],
)
def test_with_a_callback_running(run_script, executor, callback):
    answer = run_script(
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
    timer.call_later(0.001, print, "this waits behind the first and never runs")
assert entered.wait(60)
"""
    )
    assert answer == (0, "", "")


@pytest.mark.parametrize("executor", EXECUTORS)
def test_while_callbacks_run_add_and_cancel_as_fast_as_they_can(run_script, executor):
    for _ in range(5):
        answer = run_script(
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
        assert answer == (0, "", "")


def test_with_a_thread_pool_that_finishes_its_own_work(run_script):
    answer = run_script(
        """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(4)
timer = SystemTimer(executor=pool)
for i in range(1000):
    timer.call_later(60, print)
timer.call_later(0, time.sleep, 0.2)
time.sleep(0.05)
"""
    )
    assert answer == (0, "", "")


@pytest.mark.parametrize("attempt", range(5))
def test_from_a_program_full_of_daemon_threads_that_use_timers(run_script, attempt):
    answer = run_script(
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
    except RuntimeError:        # at the end of the interpreter: TimerClosed, or no new thread can be started
        pass

for loop in (tasks, batches):
    for one in (timer, inline) * 3:
        threading.Thread(target=guarded, args=(loop, one), daemon=True).start()
time.sleep({0.1 + attempt / 20})
"""
    )
    assert answer == (0, "", "")


@pytest.mark.parametrize("attempt", range(5))
def test_while_daemon_threads_make_timers_and_close_them(run_script, attempt):
    answer = run_script(
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
    assert answer == (0, "", "")


def test_with_timers_that_wait_in_advance_clock_in_daemon_threads(run_script):
    answer = run_script(
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
    assert answer == (0, "", "")


def test_in_reference_cycles_and_module_globals(run_script):
    answer = run_script(
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
    assert answer == (0, "", "")


def test_adds_in_exit_handlers_and_finalizers_are_served_or_refused(run_script):
    answer = run_script(
        """
import atexit
timer = SystemTimer()
timer.call_later(60, print)

@atexit.register
def late():                     # registered after the package's own handler, so it runs before it
    timer.call_later(60, print)
    print("added", len(timer))

class Late:
    def __del__(self, timer=timer):     # the module may have lost the name by then
        try:
            timer.call_later(60, print)
        except RuntimeError as error:
            print(type(error).__name__)

keep = Late()
"""
    )
    assert answer == (0, "added 2\nTimerClosed\n", "")


@pytest.mark.parametrize("busy", [False, True])
def test_an_unclosed_timer_on_an_executor_that_is_shut_down_at_exit(run_script, busy):
    answer = run_script(
        f"""
from concurrent.futures import ThreadPoolExecutor
timer = SystemTimer(executor=ThreadPoolExecutor(2))
for i in range(3000):
    timer.call_later(i / 3000, time.sleep, 0.01 if {busy} else 0)
every = timer.call_every(0.001, int)
time.sleep(0.2)
"""
    )
    assert answer == (0, "", "")


def test_an_error_of_one_that_follows_the_process_keeps_no_other_from_hearing_of_its_end(run_script):
    status, out, err = run_script(
        """
from hwheel.timers.lifecycle import follow_process

class Told:
    def _at_exit(self):
        print("told")
        raise ValueError("odd")

followers = [Told(), Told()]
for one in followers:
    follow_process(one)
timer = SystemTimer()
timer.call_later(60, print)
"""
    )
    assert (status, out) == (0, "told\ntold\n")
    assert err.count("Traceback") == err.count("ValueError: odd") == 2


def test_a_callback_that_adds_while_the_interpreter_ends_is_refused_in_silence(ends_well):
    ends_well("""
import threading, time
from hwheel import SystemTimer, TimerClosed
from hwheel.timers.lifecycle import follow_process
begun, ends, refused = threading.Event(), threading.Event(), threading.Event()

class Earlier:  # so it is told of the end after the timer, which is closed by then
    def _at_exit(self):
        ends.set()
        assert refused.wait(20)
        time.sleep(0.2)  # what the callback raises is reported in this time, or is not

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
