"""What a callback raises under a ManualTimer is raised by advance(), so that a test that advances fails with it."""

import signal
import threading
import time
from array import array

import pytest

from hwheel import ManualTimer


def fail(error):
    raise error


def test_an_exception_is_raised_by_advance_at_its_tick_and_the_rest_runs_in_the_next(ran):
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


def test_an_assert_that_fails_in_a_callback_fails_the_test():
    timer = ManualTimer()

    def check():
        assert timer.time() == 2

    timer.call_later(1, check)
    with pytest.raises(AssertionError):
        timer.advance(1)


def test_call_every_goes_on_after_an_exception(ran):
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


def test_an_exception_in_the_callback_of_a_batch(ran):
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


def test_close_that_runs_what_is_pending_raises_and_the_next_close_returns_the_rest(ran):
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
def test_an_interruption_is_always_raised(ran, kind, on_error):
    timer = ManualTimer(on_error=on_error)
    timer.call_later(0.005, fail, kind())
    timer.call_later(0.005, ran.append, 1)
    with pytest.raises(kind):
        timer.advance(0.01)
    assert ran == []
    timer.advance(0.01)
    assert ran == [1]


def test_ctrl_c_ends_an_advance_in_which_all_callbacks_are_compiled():
    timer = ManualTimer()
    timer.call_every(0.001, int)  # no Python code runs, which would look for signals
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    killer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    killer.start()
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.advance(100_000_000)
    finally:
        signal.signal(signal.SIGINT, usual)
        killer.join()
    assert time.monotonic() - began < 30
    assert len(timer) == 1
    timer.close()


@pytest.mark.parametrize("bad", ["ignore", 5, b"raise"])
def test_on_error_is_raise_or_none_or_callable(bad):
    with pytest.raises(TypeError, match="on_error"):
        ManualTimer(on_error=bad)


def test_what_another_thread_adds_while_the_clock_goes_through_coarse_buckets_is_not_early():
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


def test_a_ctrl_c_that_comes_while_on_error_is_at_work_is_raised():
    def on_error(task, error):
        raise KeyboardInterrupt

    timer = ManualTimer(on_error=on_error)
    timer.call_later(0, divmod, 1, 0)
    with pytest.raises(KeyboardInterrupt):
        timer.advance(0)
