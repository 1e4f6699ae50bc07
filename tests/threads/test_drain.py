"""drain(): no more timers, and what is pending runs at its own time."""

import threading
import time
from array import array
from concurrent.futures import ThreadPoolExecutor

import pytest

from hwheel import SystemTimer, TimerClosed

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
    timer.call_later(0.15, lambda: ran.append(time.monotonic() - begin))
    timer.call_later(0.05, lambda: ran.append(time.monotonic() - begin))
    timer.call_many(array("q", [100, 10]), ran.extend)
    assert timer.drain() == [] and timer.closed and len(timer) == 0
    assert len(ran) == 4 and ran[0] == 1 and ran[2] == 0
    assert 0.05 <= ran[1] and 0.15 <= ran[3]


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
