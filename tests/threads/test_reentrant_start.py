"""An add, or a whole timer, in the middle of another's first add: from a signal handler or a finalizer. No deadlock."""

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


def test_a_signal_handler_that_adds_during_the_first_add(script):
    for executor in ("", "executor='inline'"):
        check(script, ADD_IN_THE_MIDDLE.format(executor=executor, how=IN_A_SIGNAL_HANDLER))


def test_a_finalizer_that_adds_during_the_first_add(script):
    for executor in ("", "executor='inline'"):
        check(script, ADD_IN_THE_MIDDLE.format(executor=executor, how=IN_A_FINALIZER))


def test_a_signal_handler_that_makes_a_timer_while_one_is_made(script):
    check(script, TIMERS_IN_A_SIGNAL_HANDLER)
