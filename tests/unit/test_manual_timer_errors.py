"""Exceptions of callbacks under a ManualTimer: advance() raises them, so that a test fails."""

import signal
import threading
import time
from array import array
from functools import partial

import pytest

from hwheel import ManualTimer, SystemTimer


def fail(error):
    raise error


def test_advance_raises_at_the_tick_and_the_next_advance_continues(ran):
    timer = ManualTimer()
    error = ValueError("on purpose")
    timer.call_later(0.001, ran.append, 1)
    failing = timer.call_later(0.005, fail, error)
    timer.call_later(0.005, ran.append, 2)
    timer.call_later(0.009, ran.append, 3)
    with pytest.raises(ValueError) as caught:
        timer.advance(0.1)
    assert caught.value is error
    assert (ran, timer.time(), failing.expired, len(timer)) == ([1], 0.005, True, 2)
    timer.advance(0)
    assert (ran, timer.time()) == ([1, 2], 0.005)
    timer.advance(0.004)
    assert ran == [1, 2, 3]
    assert timer.stats()[:3] == (4, 4, 0)


def test_call_every_continues_after_an_exception(ran):
    timer = ManualTimer()

    def run():
        ran.append(timer.time())
        raise OSError

    task = timer.call_every(0.1, run)
    for _ in range(3):
        with pytest.raises(OSError):
            timer.advance(1)
    assert ran == [0.1, 0.2, 0.3] and task.pending
    timer.close()


def test_exception_in_a_batch_callback(ran):
    timer = ManualTimer()

    def run(indices):
        ran.extend(indices)
        raise OSError

    timer.call_many(array("q", [5, 6, 5]), run)
    for _ in range(2):
        with pytest.raises(OSError):
            timer.advance(0.01)
    timer.advance(0.01)
    assert ran == [0, 2, 1] and len(timer) == 0


def test_close_with_run_pending_raises_and_the_next_close_returns_the_rest(ran):
    timer = ManualTimer()
    timer.call_later(1, fail, OSError())
    rest = [timer.call_later(2, ran.append, 1), timer.call_later(3, ran.append, 2)]
    with pytest.raises(OSError):
        timer.close(run_pending=True)
    assert timer.closed and ran == []
    assert timer.close() == rest
    assert timer.close() == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("on_error", ["raise", None, print])
def test_interrupts_are_always_raised(ran, kind, on_error):
    timer = ManualTimer(on_error=on_error)
    timer.call_later(0.005, fail, kind())
    timer.call_later(0.005, ran.append, 1)
    with pytest.raises(kind):
        timer.advance(0.01)
    assert ran == []
    timer.advance(0.01)
    assert ran == [1]


def test_ctrl_c_ends_an_advance_of_compiled_callbacks():
    timer = ManualTimer()
    timer.call_every(0.001, int)  # no Python code runs that would check for signals
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupter = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    interrupter.start()
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.advance(100_000_000)
    finally:
        signal.signal(signal.SIGINT, usual)
        interrupter.join()
    assert time.monotonic() - began < 30
    assert len(timer) == 1
    timer.close()


def test_timers_added_by_another_thread_during_advance_are_not_early():
    early, stop = [], threading.Event()
    timer = ManualTimer(wheel_size=2)

    def check(deadline_ms):
        if round(timer.time() * 1000) < deadline_ms:
            early.append((timer.time(), deadline_ms))

    def add():
        while not stop.is_set() and len(timer) < 1000:
            deadline_ms = round(timer.time() * 1000) + 5
            timer.call_later(0.005, check, deadline_ms)

    adder = threading.Thread(target=add)
    adder.start()
    far_off = timer.call_later(1e6, int)
    give_up = time.monotonic() + 1
    while time.monotonic() < give_up:
        timer.advance(1000.003)
    stop.set()
    adder.join()
    far_off.cancel()
    timer.advance(0.01)
    assert early == []


@pytest.mark.parametrize("make", [ManualTimer, partial(SystemTimer, reaper=False, executor="inline")])
def test_interrupt_in_on_error_is_raised(make):
    def on_error(task, error):
        raise KeyboardInterrupt

    with make(on_error=on_error) as timer:
        timer.call_later(0, divmod, 1, 0)
        with pytest.raises(KeyboardInterrupt):
            timer.advance(0) if isinstance(timer, ManualTimer) else timer.advance_clock(0)
