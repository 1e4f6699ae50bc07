"""drain(): no more timers, and what is pending runs at its own time."""

import os
import threading
import time
from array import array
from concurrent.futures import ThreadPoolExecutor

import pytest

from hwheel import DelayQueue, ExpiringDict, SystemTimer, TimerClosed
from hwheel.timers.dispatch import ExecutorDispatcher

EXECUTORS = {"own": lambda: None, "inline": lambda: "inline", "pool": lambda: ThreadPoolExecutor(2)}


@pytest.fixture(params=EXECUTORS)
def executor(request):
    made = EXECUTORS[request.param]()
    yield made
    if isinstance(made, ThreadPoolExecutor):
        made.shutdown()


@pytest.mark.parametrize("reaper", [True, False])
def test_everything_runs_at_its_own_time_and_the_timer_is_closed(executor, reaper):
    timer, ran, begin = SystemTimer(executor=executor, reaper=reaper), [], time.monotonic()

    def note(which):
        ran.append((which, time.monotonic() - begin))

    timer.call_later(0.15, note, 0.15)
    timer.call_later(0.05, note, 0.05)
    timer.call_many(array("q", [100, 10]), lambda indices: [note((0.1, 0.01)[index]) for index in indices])
    assert timer.drain() == [] and timer.closed and len(timer) == 0
    if isinstance(executor, ThreadPoolExecutor):
        ran.sort()  # of its two threads either may be the faster one
    assert [at for at, _ in ran] == [0.01, 0.05, 0.1, 0.15]
    assert all(late >= at for at, late in ran)


def test_an_add_is_refused_from_then_on_also_in_a_callback(executor):
    timer, refused = SystemTimer(executor=executor), []

    def add():
        try:
            timer.call_later(1, print)
        except TimerClosed:
            refused.append(True)

    task = timer.call_later(0.05, time.sleep, 0)
    timer.call_later(0.1, add)
    drained = threading.Thread(target=timer.drain)
    drained.start()
    while not timer.closed:
        time.sleep(0.001)
    with pytest.raises(TimerClosed):
        timer.call_later(1, print)
    drained.join()
    assert task.expired and refused == [True]


def test_what_has_not_run_after_the_timeout_comes_back(executor):
    timer, ran = SystemTimer(executor=executor), []
    timer.call_later(0.01, ran.append, 1)
    far = timer.call_later(3600, ran.append, 2)
    begin = time.monotonic()
    assert timer.drain(timeout=0.2) == [far]
    assert far.cancelled and ran == [1] and time.monotonic() - begin < 60


def test_a_task_of_call_every_runs_once_more(executor):
    timer, ran = SystemTimer(executor=executor), []
    every = timer.call_every(0.05, ran.append, 1)
    assert timer.drain() == [] and ran == [1] and every.cancelled


def test_it_waits_for_a_callback_that_runs_and_for_what_an_executor_has_not_begun():
    pool = ThreadPoolExecutor(1)
    timer, ran = SystemTimer(executor=pool), []

    def slow(number):
        time.sleep(0.1)
        ran.append(number)

    for number in range(3):
        timer.call_later(0.001, slow, number)
    assert timer.drain() == [] and ran == [0, 1, 2]
    pool.shutdown()


def test_in_a_callback_it_would_wait_for_itself(executor):
    timer, errors = SystemTimer(executor=executor, on_error=lambda task, error: errors.append(error)), []
    timer.call_later(0.001, timer.drain)
    while not errors:
        time.sleep(0.001)
    assert isinstance(errors[0], RuntimeError) and not timer.closed
    timer.close()


@pytest.mark.parametrize("how", ["advance_clock", "drain", "close"])
def test_also_in_a_callback_that_the_caller_runs(how):
    timer, said = SystemTimer(executor="inline", reaper=False), []

    def drain():
        with pytest.raises(RuntimeError, match="would wait for itself"):
            timer.drain()
        said.append(len(timer))

    timer.call_later(0.001, drain)
    timer.call_later(0.002, said.append, "later")
    if how == "advance_clock":
        while len(said) < 2:
            timer.advance_clock(1000)
        timer.close()
    else:
        assert (timer.drain() if how == "drain" else timer.close(run_pending=True)) == []
    assert said[0] in (0, 1) and said[1] == "later"


# --- containers, whose alarm is one task for many entries -----------------------------------------------------------


@pytest.mark.parametrize("reaper", [True, False])
def test_what_a_dict_holds_expires_at_its_own_time(executor, reaper):
    timer, told = SystemTimer(executor=executor, reaper=reaper), []
    begin = time.monotonic()
    entries = ExpiringDict(0.3, on_expire=lambda pairs: told.append((time.monotonic() - begin, pairs)), timer=timer)
    for i in range(10):
        entries.set(i, i, ttl=0.1 + i / 20)
    assert timer.drain() == []
    assert [key for _, pairs in told for key, _ in pairs] == [*range(10)] and len(entries) == 0
    assert all(late >= 0.1 + key / 20 for late, pairs in told for key, _ in pairs)
    with pytest.raises(TimerClosed):
        entries["new"] = 1


def test_an_alarm_that_is_set_again_between_two_looks_of_drain_is_not_the_end(pool, eventually, monkeypatch):
    timer, told, looked = SystemTimer(executor=pool), [], threading.Event()
    may_run_more = ExecutorDispatcher.may_run_more

    def look_once_it_has_run(self, timer):
        looked.set()
        eventually(lambda: not may_run_more(self, timer))
        return may_run_more(self, timer)

    def tell(pairs):
        looked.wait(60)
        told.extend(key for key, _ in pairs)

    monkeypatch.setattr(ExecutorDispatcher, "may_run_more", look_once_it_has_run)
    entries = ExpiringDict(3600, on_expire=tell, timer=timer)
    entries.set("now", 1, ttl=0.01)
    entries.set("then", 2, ttl=1)
    assert timer.drain() == [] and told == ["now", "then"] and len(entries) == 0


@pytest.mark.parametrize("reaper", [True, False])
def test_an_on_expire_that_runs_is_waited_for_when_nothing_else_is_pending(executor, reaper):
    timer, told, entered = SystemTimer(executor=executor, reaper=reaper), [], threading.Event()

    def on_expire(pairs):
        entered.set()
        while not timer.closed:
            time.sleep(0.001)
        time.sleep(0.1)
        told.extend(pairs)

    def advance():
        while not reaper and not entered.is_set():  # the alarm may ring more than once
            timer.advance_clock(10)

    # An alarm that rings while it is set, as on a machine where that takes a ms, is set once more.
    entries = ExpiringDict(0.1, on_expire=on_expire, timer=timer)
    entries["key"] = 1
    advances = threading.Thread(target=advance)
    advances.start()
    assert entered.wait(60) and len(timer) == 0
    assert timer.drain() == [] and told == [("key", 1)]
    advances.join()


def test_what_a_dict_holds_after_the_timeout_is_not_told_of():
    timer, told = SystemTimer(), []
    entries = ExpiringDict(3600, on_expire=told.extend, timer=timer)
    entries.set("soon", 1, ttl=0.1)
    entries["late"] = 2
    assert len(timer.drain(timeout=0.5)) == 1 and told == [("soon", 1)] and dict(entries) == {"late": 2}
    assert len(timer) == 0


def test_who_waits_for_an_item_of_a_queue_gets_it():
    timer, got = SystemTimer(), []
    queue = DelayQueue(timer=timer)
    queue.put("item", delay=0.3)
    waits = threading.Thread(target=lambda: got.append(queue.get()))
    waits.start()
    while not len(timer) and not got:  # a thread that begins late finds the item due
        time.sleep(0.001)
    assert timer.drain() == []
    waits.join(60)
    assert got == ["item"]


# --- forks ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
@pytest.mark.parametrize("executor", ["None", "'inline'"])
@pytest.mark.parametrize("fork", ["keep", "drop"])
@pytest.mark.parametrize("where", ["elsewhere", "in a signal handler"])
def test_a_child_goes_on_with_it(run_script, where, fork, executor):
    told = run_script(
        f"""
timer, ran, children = SystemTimer(executor={executor}, fork={fork!r}), [], []
timer.call_later(0.5, ran.append, 1)
if {where!r} == "elsewhere":
    drain = threading.Thread(target=timer.drain)
    drain.start()
    while not timer.closed:
        time.sleep(0.001)
    children.append(os.fork())
    if children[0]:
        drain.join()
    else:
        while {fork!r} == "keep" and not ran:  # nobody need call anything
            time.sleep(0.001)
        assert timer.drain() == []
else:
    signal.signal(signal.SIGALRM, lambda *_: children.append(os.fork()))
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    assert timer.drain() == []
assert ran == ([1] if children[0] or {fork!r} == "keep" else []), ran
assert timer.closed and len(timer) == 0
if not children[0]:
    os._exit(0)  # faulthandler's thread is the parent's
assert os.waitpid(children[0], 0)[1] == 0
""",
    )
    assert told == (0, "", "")


def test_cancelled_tasks_are_not_waited_for():
    timer = SystemTimer()
    far = timer.call_later(3600, print)
    threading.Timer(0.1, far.cancel).start()
    begin = time.monotonic()
    assert timer.drain() == [] and time.monotonic() - begin < 60


def test_a_clock_that_is_set_back_in_the_midst_makes_nothing_early():
    now = [1000.0]
    timer, ran = SystemTimer(executor="inline", reaper=False, clock=lambda: now[0]), []
    timer.call_later(0.05, lambda: ran.append(now[0]))
    back = threading.Timer(0.1, lambda: now.__setitem__(0, 1060.0))
    back.start()
    now[0] = 900.0
    assert timer.drain(timeout=30) == [] and ran == [1060.0]
    back.join()


def test_bad_input_and_a_closed_timer():
    timer = SystemTimer()
    for bad in ("1", -1, float("nan"), True):
        with pytest.raises((TypeError, ValueError)):
            timer.drain(timeout=bad)
    assert not timer.closed
    assert timer.drain() == [] == timer.drain()
    assert timer.close() == []
