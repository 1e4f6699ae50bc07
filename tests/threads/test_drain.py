"""drain() refuses new tasks and runs pending tasks at their deadlines."""

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
def test_drain_runs_each_task_at_its_deadline_and_closes(executor, reaper):
    timer, ran, begin = SystemTimer(executor=executor, reaper=reaper), [], time.monotonic()

    def note(which):
        ran.append((which, time.monotonic() - begin))

    timer.call_later(0.15, note, 0.15)
    timer.call_later(0.05, note, 0.05)
    timer.call_many(array("q", [100, 10]), lambda indices: [note((0.1, 0.01)[index]) for index in indices])
    assert timer.drain() == [] and timer.closed and len(timer) == 0
    if isinstance(executor, ThreadPoolExecutor):
        ran.sort()  # its two threads may finish in either order
    assert [at for at, _ in ran] == [0.01, 0.05, 0.1, 0.15]
    assert all(late >= at for at, late in ran)


def test_drain_without_a_reaper_waits_no_longer_than_to_the_next_deadline():
    waits_s = []

    class Timer(SystemTimer):
        def _advance_clock(self, timeout_ns):
            waits_s.append(timeout_ns / 1e9)
            return super()._advance_clock(timeout_ns)

    timer = Timer(reaper=False)
    timer.call_later(0.02, time.sleep, 0.05)
    timer.call_later(0.03, time.sleep, 0)  # has expired, and waits for the executor thread
    assert timer.drain() == [] and 0 < max(waits_s) <= 0.03


def test_adds_are_refused_during_drain_even_in_callbacks(executor):
    timer, refused = SystemTimer(executor=executor), []

    def add():
        while not timer.closed:  # drain() may begin late
            time.sleep(0.001)
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


def test_drain_returns_tasks_left_after_the_timeout(executor):
    timer, ran = SystemTimer(executor=executor), []
    timer.call_later(0.01, ran.append, 1)
    far = timer.call_later(3600, ran.append, 2)
    begin = time.monotonic()
    assert timer.drain(timeout=0.2) == [far]
    assert far.cancelled and ran == [1] and time.monotonic() - begin < 60


def test_periodic_task_runs_once_more_during_drain(executor):
    timer, ran = SystemTimer(executor=executor), []
    every = timer.call_every(0.05, ran.append, 1)
    assert timer.drain() == [] and ran == [1] and every.cancelled


def test_drain_waits_for_running_and_queued_callbacks():
    pool = ThreadPoolExecutor(1)
    timer, ran = SystemTimer(executor=pool), []

    def slow(number):
        time.sleep(0.1)
        ran.append(number)

    for number in range(3):
        timer.call_later(0.001, slow, number)
    assert timer.drain() == [] and ran == [0, 1, 2]
    pool.shutdown()


def test_drain_in_a_callback_raises(executor):
    timer, errors = SystemTimer(executor=executor, on_error=lambda task, error: errors.append(error)), []
    timer.call_later(0.001, timer.drain)
    while not errors:
        time.sleep(0.001)
    assert isinstance(errors[0], RuntimeError) and not timer.closed
    timer.close()


@pytest.mark.parametrize("how", ["advance_clock", "drain", "close"])
def test_drain_in_a_callback_run_by_the_caller_raises(how):
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


# --- containers, which use one task for many entries ----------------------------------------------------------------


@pytest.mark.parametrize("reaper", [True, False])
def test_dict_entries_expire_at_their_deadlines_during_drain(executor, reaper):
    timer, reported = SystemTimer(executor=executor, reaper=reaper), []
    begin = time.monotonic()
    entries = ExpiringDict(0.3, on_expire=lambda pairs: reported.append((time.monotonic() - begin, pairs)), timer=timer)
    for i in range(10):
        entries.set(i, i, ttl=0.1 + i / 20)
    assert timer.drain() == []
    assert [key for _, pairs in reported for key, _ in pairs] == [*range(10)] and len(entries) == 0
    assert all(late >= 0.1 + key / 20 for late, pairs in reported for key, _ in pairs)
    with pytest.raises(TimerClosed):
        entries["new"] = 1


def test_drain_continues_after_a_wakeup_is_rescheduled_between_two_checks(pool, eventually, monkeypatch):
    timer, reported, checked = SystemTimer(executor=pool), [], threading.Event()
    may_run_more = ExecutorDispatcher.may_run_more

    def check_after_the_run(self, timer):
        checked.set()
        eventually(lambda: not may_run_more(self, timer))
        return may_run_more(self, timer)

    def report(pairs):
        checked.wait(60)
        reported.extend(key for key, _ in pairs)

    monkeypatch.setattr(ExecutorDispatcher, "may_run_more", check_after_the_run)
    entries = ExpiringDict(3600, on_expire=report, timer=timer)
    entries.set("now", 1, ttl=0.01)
    entries.set("then", 2, ttl=1)
    assert timer.drain() == [] and reported == ["now", "then"] and len(entries) == 0


@pytest.mark.parametrize("reaper", [True, False])
def test_drain_waits_for_a_running_on_expire(executor, reaper):
    timer, reported, entered = SystemTimer(executor=executor, reaper=reaper), [], threading.Event()

    def on_expire(pairs):
        entered.set()
        while not timer.closed:
            time.sleep(0.001)
        time.sleep(0.1)
        reported.extend(pairs)

    def advance():
        while not reaper and not entered.is_set():  # the wake-up may run more than once
            timer.advance_clock(10)

    # On a slow machine the wake-up may run while it is being set, and is then set again.
    entries = ExpiringDict(0.1, on_expire=on_expire, timer=timer)
    entries["key"] = 1
    advances = threading.Thread(target=advance)
    advances.start()
    assert entered.wait(60) and len(timer) == 0
    assert timer.drain() == [] and reported == [("key", 1)]
    advances.join()


def test_dict_entries_left_after_the_timeout_stay_in_the_dict():
    timer, reported = SystemTimer(), []
    entries = ExpiringDict(3600, on_expire=reported.extend, timer=timer)
    entries.set("soon", 1, ttl=0.1)
    entries["late"] = 2
    assert len(timer.drain(timeout=0.5)) == 1 and reported == [("soon", 1)] and dict(entries) == {"late": 2}
    assert len(timer) == 0


def test_waiting_consumer_gets_its_item_during_drain():
    timer, got = SystemTimer(), []
    queue = DelayQueue(timer=timer)
    queue.put("item", delay=0.3)
    waits = threading.Thread(target=lambda: got.append(queue.get()))
    waits.start()
    while not len(timer) and not got:  # a thread that starts late gets the item at once
        time.sleep(0.001)
    assert timer.drain() == []
    waits.join(60)
    assert got == ["item"]


# --- forks ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
@pytest.mark.parametrize("executor", ["None", "'inline'"])
@pytest.mark.parametrize("fork", ["keep", "drop"])
@pytest.mark.parametrize("where", ["elsewhere", "in a signal handler"])
def test_forked_child_continues_a_drain(run_script, where, fork, executor):
    reported = run_script(
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
        while {fork!r} == "keep" and not ran:  # the child's reaper runs it
            time.sleep(0.001)
        assert timer.drain() == []
else:
    signal.signal(signal.SIGALRM, lambda *_: children.append(os.fork()))
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    assert timer.drain() == []
assert ran == ([1] if children[0] or {fork!r} == "keep" else []), ran
assert timer.closed and len(timer) == 0
if not children[0]:
    os._exit(0)  # skips faulthandler's thread, which only the parent has
assert os.waitpid(children[0], 0)[1] == 0
""",
    )
    assert reported == (0, "", "")


def test_drain_does_not_wait_for_cancelled_tasks():
    timer = SystemTimer()
    far = timer.call_later(3600, print)
    threading.Timer(0.1, far.cancel).start()
    begin = time.monotonic()
    assert timer.drain() == [] and time.monotonic() - begin < 60


def test_clock_that_goes_back_during_drain_runs_nothing_early():
    now = [1000.0]
    timer, ran = SystemTimer(executor="inline", reaper=False, clock=lambda: now[0]), []
    timer.call_later(0.05, lambda: ran.append(now[0]))
    back = threading.Timer(0.1, lambda: now.__setitem__(0, 1060.0))
    back.start()
    now[0] = 900.0
    assert timer.drain(timeout=30) == [] and ran == [1060.0]
    back.join()


def test_bad_timeout_is_refused_and_drain_is_idempotent():
    timer = SystemTimer()
    for bad in ("1", -1, float("nan"), True):
        with pytest.raises((TypeError, ValueError)):
            timer.drain(timeout=bad)
    assert not timer.closed
    assert timer.drain() == [] == timer.drain()
    assert timer.close() == []


def test_another_thread_closes_as_drain_begins():
    class ClosedMeanwhile(SystemTimer):
        def _ensure_started(self):
            self.returned = self.close()
            super()._ensure_started()

    timer = ClosedMeanwhile()
    task = timer.call_later(60, int)
    assert timer.drain() == []
    assert timer.returned == [task]
