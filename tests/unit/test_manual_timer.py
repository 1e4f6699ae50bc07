"""ManualTimer: callbacks run inside advance(), as if time flowed."""

import signal
import threading
import time
from array import array
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from hwheel import ManualTimer, SystemTimer, TimerTask


def now_ms(timer):
    return round(timer.time() * 1000)


def test_nested_advance_is_an_error(ran):
    timer = ManualTimer(on_error=lambda task, error: ran.append(type(error)))
    timer.add(TimerTask(5, timer.advance, 1))
    timer.add(TimerTask(6, lambda: ran.append(now_ms(timer))))
    timer.advance(0.01)
    assert ran == [RuntimeError, 6]
    assert now_ms(timer) == 10


def test_concurrent_advance_is_an_error(ran):
    def another():
        try:
            timer.advance(0.001)
        except RuntimeError as error:
            ran.append(str(error))

    def callback():
        thread = threading.Thread(target=another)
        thread.start()
        thread.join()

    timer = ManualTimer()
    timer.add(TimerTask(5, callback))
    timer.advance(0.01)
    assert len(ran) == 1
    assert "advance" in ran[0]
    assert now_ms(timer) == 10


def test_exception_goes_to_on_error_and_advance_continues(ran):
    timer = ManualTimer(on_error=lambda task, error: ran.append((task is failing, type(error))))
    failing = timer.add(TimerTask(5, lambda: 1 // 0))
    timer.add(TimerTask(5, ran.append, "goes on"))
    timer.advance(0.005)
    assert ran == [(True, ZeroDivisionError), "goes on"]
    assert failing.expired
    assert timer.stats()[:3] == (2, 2, 0)


def test_on_error_none_reports_to_threading_excepthook(ran, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda args: ran.append((args.exc_type, args.thread)))
    timer = ManualTimer(on_error=None)
    timer.add(TimerTask(5, lambda: 1 // 0))
    timer.advance(0.005)
    assert ran == [(ZeroDivisionError, threading.current_thread())]


def test_call_at_takes_a_time_of_the_timers_clock(ran):
    timer = ManualTimer(start_ms=60_000)
    timer.call_at(60.005, ran.append, "later")
    timer.call_at(1, ran.append, "over")
    timer.advance(0)
    assert ran == ["over"]
    timer.advance(0.004)
    assert ran == ["over"]
    timer.advance(0.001)
    assert ran == ["over", "later"]


def test_empty_ticks_cost_no_cascade():
    timer = ManualTimer()
    timer.add(TimerTask(10**9, print)).cancel()
    timer.advance((10**6) / 1000)
    assert timer.stats().cascaded == 0


def test_empty_timer_is_true():
    assert len(ManualTimer()) == 0
    assert ManualTimer()


# --- close ---------------------------------------------------------------------------------------------------------


def test_callback_can_close_its_timer(ran):
    timer = ManualTimer()
    timer.add(TimerTask(5, lambda: ran.append([task.args for task in timer.close()])))
    timer.add(TimerTask(5, ran.append, "same tick"))
    timer.add(TimerTask(9, ran.append, "later"))
    timer.advance(0.01)
    assert ran == [[("same tick",), ("later",)]]
    assert timer.closed


def test_with_block_closes_the_timer():
    with ManualTimer() as timer:
        task = timer.add(TimerTask(5))
    assert timer.closed
    assert task.cancelled


@pytest.mark.parametrize("start_s", [0, 2**20, 2**21, 2_926_131, 4 * 10**6, 16_777_216, 9 * 10**9, 10**12])
def test_float_seconds_are_exact_to_the_millisecond(start_s):
    timer = ManualTimer(start_ms=start_s * 1000 + 111)
    for k in range(1, 2000):
        before_ms = round(timer.time() * 1000)
        task = timer.call_at(timer.time() + k / 1000, int)
        assert task.deadline_ms == before_ms + k
        timer.advance_to(timer.time() + k / 1000)
        assert round(timer.time() * 1000) == before_ms + k


def test_integer_seconds_are_exact():
    for seconds in (9_007_199_254_740_977, np.int64(9_007_199_254_740_977), np.array(9_007_199_254_740_977)):
        timer = ManualTimer()
        timer.advance(seconds)
        assert timer.call_later(0, int).deadline_ms == 9_007_199_254_740_977_000


@pytest.mark.parametrize("value", [np.True_, np.array(True), np.array("5"), np.complex128(1 + 2j), 1j])
def test_non_numbers_of_numpy_are_not_seconds(value):
    timer = ManualTimer()
    with pytest.raises(TypeError, match="must be a number of seconds"):
        timer.call_later(value, print)
    assert len(timer) == 0


def test_close_timeout_takes_any_real_number():
    with pytest.raises(ValueError, match="NaN"):
        ManualTimer().close(timeout=float("nan"))
    for timeout in (0, 0.5, float("inf"), Fraction(1, 2), Decimal("0.5"), np.float32(0.5), np.int64(1)):
        with SystemTimer() as timer:
            timer.call_later(100, print)
            assert len(timer.close(timeout=timeout)) == 1


# --- next_deadline ----------------------------------------------------------------------------------------------------


def test_next_deadline_of_a_near_task():
    timer = ManualTimer()
    assert timer.next_deadline is None
    first = timer.call_later(0.25, int)
    timer.call_later(0.3, int)
    assert timer.next_deadline == 0.25
    first.cancel()
    assert timer.next_deadline == 0.3
    timer.advance(0.3)
    assert timer.next_deadline is None


def test_next_deadline_is_never_after_a_far_task():
    timer = ManualTimer(wheel_size=20)
    timer.call_later(7.777, int)
    while len(timer):
        assert timer.time() <= timer.next_deadline <= 7.777
        timer.advance_to(timer.next_deadline)
    assert timer.time() == 7.777


def test_next_deadline_of_expired_tasks_is_now():
    timer = ManualTimer()
    timer.advance(5)
    timer.call_later(0, int)
    assert timer.next_deadline == 5
    timer.call_many(memoryview(b"\0" * 16).cast("q"), print)
    assert timer.next_deadline == 5


def test_next_deadline_of_a_closed_or_uninitialized_timer(hand_clock):
    with SystemTimer(clock=hand_clock) as timer:
        timer.call_later(100, int)
    assert timer.next_deadline is None
    with pytest.raises(RuntimeError, match="not been set up"):
        print(SystemTimer.__new__(SystemTimer).next_deadline)


# --- exceptions of callbacks: advance() raises them, so that a test fails ---------------------------------------------


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
