"""The threads of a timer: names, start, and an add that interrupts the start."""

import os
import sys
import threading

import pytest

from strikes import Striker, strike
from threads import run_concurrently

pytestmark = pytest.mark.usefixtures("no_gc_callbacks")


def thread_names(suffix):
    return sorted(thread.name for thread in threading.enumerate() if thread.name.endswith(suffix))


@pytest.mark.parametrize(
    ("executor", "reaper", "expected"),
    [
        (None, True, ["executor-mine", "reaper-mine"]),
        ("inline", True, ["reaper-mine"]),
        (None, False, ["executor-mine"]),
        ("inline", False, []),
    ],
)
def test_threads_are_named_after_the_timer_and_start_with_the_first_add(make_timer, executor, reaper, expected):
    timer = make_timer("mine", executor=executor, reaper=reaper)
    assert thread_names("-mine") == []
    timer.call_later(3600, print)
    timer.call_later(3600, print)
    assert thread_names("-mine") == expected
    timer.close()
    assert thread_names("-mine") == []


def test_timer_with_a_pool_starts_only_the_reaper(make_timer, pool):
    timer = make_timer("mine", executor=pool)
    timer.call_later(3600, print)
    assert thread_names("-mine") == ["reaper-mine"]


def test_callbacks_run_on_the_executors_thread(make_timer, executor, eventually):
    timer = make_timer("mine", executor=executor)
    seen = []
    timer.call_later(0, lambda: seen.append(threading.current_thread().name))
    timer.call_later(0.01, lambda: seen.append(threading.current_thread().name))
    eventually(lambda: len(seen) == 2)
    if hasattr(executor, "submit"):
        assert all(name.startswith("pool") for name in seen)
    else:
        where = "reaper-mine" if executor == "inline" else "executor-mine"
        assert seen == [where, where]


def test_threads_are_daemons(make_timer):
    timer = make_timer("mine")
    timer.call_later(3600, print)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.endswith("-mine"))


def test_concurrent_first_adds_start_one_pair_of_threads(make_timer, many_switches):
    for _ in range(20):
        timer = make_timer("mine")
        run_concurrently(*[lambda: timer.call_later(3600, print)] * 4)
        assert thread_names("-mine") == ["executor-mine", "reaper-mine"]
        assert len(timer) == 4
        timer.close()


ADD_IN_THE_MIDDLE = """
import signal, sys, threading, time
from hwheel import SystemTimer

timer = SystemTimer({executor})
ran = []

def add_another(*_):
    timer.call_later(0.01, ran.append, "inner")

{how}
timer.call_later(0.01, ran.append, "outer")
give_up = time.monotonic() + 60
while sorted(ran) != ["inner", "outer"]:
    assert time.monotonic() < give_up, ran
    time.sleep(0.01)
names = [thread.name for thread in threading.enumerate() if thread.name.endswith("-timer")]
assert len(names) == len(set(names)), names
timer.close()
print("done")
"""

IN_A_SIGNAL_HANDLER = """
signal.signal(signal.SIGUSR1, add_another)
start = threading.Thread.start

def start_and_signal(thread):
    threading.Thread.start = start
    signal.raise_signal(signal.SIGUSR1)
    start(thread)

threading.Thread.start = start_and_signal
"""

IN_A_FINALIZER = """
import gc

class Garbage:
    def __del__(self):
        add_another()

garbage = Garbage()
garbage.itself = garbage
del garbage
start = threading.Thread.start

def start_and_collect(thread):
    threading.Thread.start = start
    gc.collect()
    start(thread)

threading.Thread.start = start_and_collect
"""

TIMERS_IN_A_SIGNAL_HANDLER = """
import signal, time
from hwheel import SystemTimer
made, running = [], []

def make_another(*_):
    if not running:
        running.append(1)
        made.append(SystemTimer())
        running.clear()

signal.signal(signal.SIGALRM, make_another)
signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
give_up = time.monotonic() + 3
while time.monotonic() < give_up:
    SystemTimer()
signal.setitimer(signal.ITIMER_REAL, 0)
assert made
print("done")
"""


def check(script, text):
    output, errors = script(text).communicate(timeout=110)
    assert (output, errors) == ("done\n", "")


@pytest.mark.parametrize("executor", ["", "executor='inline'"], ids=["own thread", "inline"])
@pytest.mark.parametrize("how", [IN_A_SIGNAL_HANDLER, IN_A_FINALIZER], ids=["signal handler", "finalizer"])
def test_reentrant_add_during_the_first_add(script, executor, how):
    check(script, ADD_IN_THE_MIDDLE.format(executor=executor, how=how))


def test_signal_handler_creates_a_timer_during_another_constructor(script):
    check(script, TIMERS_IN_A_SIGNAL_HANDLER)


def strikes_of_a_run(make_timer, executor, line, eventually):
    """Strike at a line of the timer's threads and once more. Return how often this struck. No task may be lost."""
    striker = Striker(line, f"{os.sep}timers{os.sep}", lambda thread: "-struck" in thread.name)
    ran = []
    threading.settrace(striker.enter)
    try:
        timer = make_timer("struck", executor=executor, on_error=striker.on_error)
        tasks = [timer.call_later(0.001 * i, ran.append, i) for i in range(3)]
        eventually(lambda: not len(timer))
        tasks.append(timer.call_later(0.001, ran.append, 3))
    finally:
        threading.settrace(None)
    eventually(lambda: all(i in ran or task in striker.reported for i, task in enumerate(tasks)))
    timer.close()
    assert len({*ran}) == len(ran)
    return striker.strikes


@pytest.mark.skipif(sys.gettrace() is not None, reason="another tracer is active")
def test_no_exception_from_outside_ends_a_thread(make_timer, ordered_executor, eventually):
    """As stopit and func_timeout raise them, at every line and twice in a row."""
    counts = []
    while not counts or counts[-1]:
        counts.append(strikes_of_a_run(make_timer, ordered_executor, len(counts) + 1, eventually))
    assert len(counts) > 4
    assert max(counts) >= 2


# Not with a pool: an exception that strikes inside ThreadPoolExecutor.submit() can leave one of its locks taken.
@pytest.mark.parametrize("executor", [None, "inline"], ids=["own thread", "inline"])
def test_tasks_and_exceptions_from_outside(make_timer, executor, eventually):
    struck, ran = [], []
    timer = make_timer("struck", executor=executor, on_error=lambda source, error: struck.append(source))
    tasks = [timer.call_later(0.0002 * i, ran.append, i) for i in range(1000)]
    threads = [thread for thread in threading.enumerate() if thread.name.endswith("-struck")]

    def strike_until_all_have_run():
        for thread in threads:
            strike(thread.ident)
        return not len(timer)

    eventually(strike_until_all_have_run)
    last = threading.Event()
    timer.call_later(0, last.set)
    assert last.wait(10)
    timer.close()
    assert struck
    assert len({*ran}) == len(ran)
    assert all(i in ran or task in struck for i, task in enumerate(tasks))
