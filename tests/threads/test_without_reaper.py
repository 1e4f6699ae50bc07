"""reaper=False: the caller dispatches tasks with advance_clock()."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from hwheel import TimerClosed
from threads import run_concurrently

PATIENCE_S = 60


def test_advance_clock_returns_false_after_its_timeout(make_timer, executor):
    timer = make_timer(executor=executor, reaper=False)
    timer.call_later(3600, print)
    started = time.monotonic_ns()
    assert timer.advance_clock(50) is False
    assert time.monotonic_ns() - started >= 50_000_000
    assert timer.advance_clock(0) is False


def test_advance_clock_returns_true_after_an_expiry(make_timer, executor, eventually):
    timer = make_timer(executor=executor, reaper=False)
    ran = []
    timer.call_later(0.02, ran.append, 1)
    assert timer.advance_clock(PATIENCE_S * 1000) is True
    while not ran and len(timer):
        timer.advance_clock(1000)
    eventually(lambda: ran == [1])


def test_inline_callbacks_run_in_the_calling_thread(make_timer, hand_clock):
    timer = make_timer(executor="inline", clock=hand_clock, reaper=False)
    threads = []
    timer.call_later(0.02, lambda: threads.append(threading.current_thread()))
    assert timer.advance_clock(0) is False
    hand_clock.ms += 20
    assert timer.advance_clock(0) is True
    assert threads == [threading.current_thread()]


def test_nothing_runs_unless_the_clock_is_advanced(make_timer):
    timer = make_timer("lazy", executor="inline", reaper=False)
    ran = []
    timer.call_later(0.001, ran.append, 1)
    timer.call_later(0, ran.append, 0)
    time.sleep(0.05)
    assert ran == []
    assert not [thread for thread in threading.enumerate() if thread.name.endswith("-lazy")]
    while len(timer):
        timer.advance_clock(1000)
    assert ran == [0, 1]


def test_earlier_add_ends_the_wait(make_timer):
    timer = make_timer(executor="inline", reaper=False)
    ran = []
    timer.call_later(3600, ran.append, "late")
    adder = threading.Timer(0.1, timer.call_later, (0.001, ran.append, "early"))
    adder.start()
    while not ran:
        assert timer.advance_clock(PATIENCE_S * 1000) is True
    adder.join()
    assert ran == ["early"]


def test_close_in_another_thread_ends_the_wait(make_timer):
    timer = make_timer(reaper=False)
    closer = threading.Timer(0.1, timer.close)
    closer.start()
    assert timer.advance_clock(3_600_000) is False
    closer.join()


def test_concurrent_advance_clock_runs_each_task_once(make_timer, many_switches):
    timer = make_timer(executor="inline", reaper=False)
    ran = []
    for i in range(2000):
        timer.call_later(i / 20_000, ran.append, i)

    def advance():
        while len(timer):
            timer.advance_clock(20)

    run_concurrently(*[advance] * 3)
    assert sorted(ran) == list(range(2000))


INTERRUPTED = """
import signal
from hwheel import SystemTimer
signal.signal(signal.SIGINT, signal.default_int_handler)
timer = SystemTimer(executor={executor}, reaper=False)
timer.call_later(3600, print)
print("waiting", flush=True)
try:
    timer.advance_clock({timeout_ms})
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert len(timer) == 1
timer.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill() ends the process on Windows")
@pytest.mark.parametrize("executor", ["None", "'inline'"])
@pytest.mark.parametrize("timeout_ms", [3_000_000, 2**62])
def test_ctrl_c_interrupts_the_wait(script, executor, timeout_ms):
    process = script(INTERRUPTED.format(executor=executor, timeout_ms=timeout_ms))
    assert process.stdout.readline() == "waiting\n"
    for _ in range(PATIENCE_S):
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)
        # Wait before another signal, which would hit a program that is already exiting.
        try:
            output, errors = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            continue  # the signal came before the wait
        break
    assert (process.returncode, output, errors) == (0, "interrupted\n", "")


@pytest.mark.skipif(sys.platform != "win32", reason="on other systems the signal must reach the waiting thread")
@pytest.mark.parametrize("executor", [None, "inline"])
def test_signal_handled_by_another_thread_interrupts_the_wait(make_timer, executor):
    # On Windows the system calls the handler of Ctrl-C on its own thread.
    timer = make_timer(executor=executor, reaper=False)
    timer.call_later(3600, print)
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupter = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    interrupter.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.advance_clock(600_000)
    finally:
        interrupter.join()
        signal.signal(signal.SIGINT, usual)
    assert timer.advance_clock(50) is False
    assert len(timer) == 1


def test_earlier_add_wakes_every_waiting_thread(make_timer):
    timer = make_timer(executor="inline", reaper=False)
    ran = threading.Event()
    timer.call_later(3600, print)

    def wait():
        with contextlib.suppress(TimerClosed):
            while True:  # advance_clock() also returns after another thread ran the expired tasks
                timer.advance_clock(PATIENCE_S * 1000)

    waiting = [threading.Thread(target=wait) for _ in range(2)]
    for thread in waiting:
        thread.start()
    time.sleep(0.2)  # until both sleep
    timer.call_later(0.05, int)  # wakes both: one runs the task, and both sleep again
    time.sleep(0.2)
    timer.call_later(0.05, ran.set)
    assert ran.wait(5), "one wake-up was lost"
    timer.close()
    for thread in waiting:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_earlier_add_wakes_the_thread_that_sleeps_longest(make_timer):
    timer = make_timer(executor="inline", reaper=False)
    ran = threading.Event()
    first = timer.call_later(0.3, print)
    short = threading.Thread(target=timer.advance_clock, args=(PATIENCE_S * 1000,))
    short.start()
    time.sleep(0.1)
    first.cancel()  # `short` sleeps on until 0.3 s are over
    long = threading.Thread(target=timer.advance_clock, args=(PATIENCE_S * 1000,))
    long.start()  # without a deadline to wait for
    time.sleep(0.3)  # by now `short` has woken up and sleeps again
    timer.call_later(0.05, ran.set)
    assert ran.wait(5)
    timer.close()
    short.join(PATIENCE_S)
    long.join(PATIENCE_S)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_interrupt_in_an_inline_callback_is_raised_by_advance_clock(make_timer, hand_clock, kind):
    reported, ran = [], []

    def interrupted():
        raise kind

    timer = make_timer(
        executor="inline", clock=hand_clock, reaper=False, on_error=lambda task, error: reported.append(type(error))
    )
    timer.call_later(0, ran.append, 1)
    timer.call_later(0, interrupted)
    timer.call_later(0, lambda: 1 / 0)
    timer.call_later(0, ran.append, 2)
    with pytest.raises(kind):
        timer.advance_clock(0)
    assert (ran, reported, len(timer)) == ([1], [], 2)
    assert timer.advance_clock(0) is True
    assert (ran, reported, len(timer)) == ([1, 2], [ZeroDivisionError], 0)


def test_interrupt_does_not_end_a_periodic_task(make_timer, hand_clock):
    runs = []

    def interrupted_once():
        runs.append(hand_clock.ms)
        if len(runs) == 1:
            raise KeyboardInterrupt

    timer = make_timer(executor="inline", clock=hand_clock, reaper=False)
    task = timer.call_every(1, interrupted_once)
    hand_clock.ms += 1000
    with pytest.raises(KeyboardInterrupt):
        timer.advance_clock(0)
    assert task.pending
    hand_clock.ms += 1000
    timer.advance_clock(0)
    assert len(runs) == 2


def test_waiting_threads_sleep_again_after_a_needless_wake_up(make_timer):
    timer = make_timer(executor="inline", reaper=False)
    timer.call_later(3600, print)

    def wait():
        assert timer.advance_clock(400) is False

    def add_an_earlier_task():
        time.sleep(0.1)  # the others sleep by now
        timer.call_later(1800, print)

    run_concurrently(wait, wait, add_an_earlier_task)
    assert timer.stats().wakeups <= 6
