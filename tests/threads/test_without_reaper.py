"""reaper=False: the caller is the reaper, through advance_clock()."""

import os
import signal
import subprocess
import threading
import time

import pytest

from hwheel import TimerClosed

PATIENCE_S = 60


def test_false_when_the_time_runs_out_and_never_before_it(make_timer, executor):
    timer = make_timer(executor=executor, reaper=False)
    timer.call_later(3600, print)
    started = time.monotonic()
    assert timer.advance_clock(50) is False
    assert time.monotonic() - started >= 0.05
    assert timer.advance_clock(0) is False


def test_true_when_something_fell_due(make_timer, executor, eventually):
    timer = make_timer(executor=executor, reaper=False)
    ran = []
    timer.call_later(0.02, ran.append, 1)
    assert timer.advance_clock(PATIENCE_S * 1000) is True
    while not ran and timer.size:
        timer.advance_clock(1000)
    eventually(lambda: ran == [1])


def test_with_inline_callbacks_run_in_the_caller_before_it_returns(make_timer, hand_clock):
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
    while timer.size:
        timer.advance_clock(1000)
    assert ran == [0, 1]


def test_an_earlier_add_ends_the_wait(make_timer):
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


def test_two_threads_may_advance_at_once_and_nothing_runs_twice(make_timer, many_switches):
    timer = make_timer(executor="inline", reaper=False)
    ran = []
    for i in range(2000):
        timer.call_later(i / 20_000, ran.append, i)

    def advance():
        while timer.size:
            timer.advance_clock(20)

    helpers = [threading.Thread(target=advance) for _ in range(3)]
    for helper in helpers:
        helper.start()
    for helper in helpers:
        helper.join()
    assert sorted(ran) == list(range(2000))


def test_only_without_a_reaper_and_only_while_open(make_timer):
    with pytest.raises(RuntimeError, match="reaper=False"):
        make_timer().advance_clock(0)
    timer = make_timer(reaper=False)
    for bad, error in [(-1, ValueError), (1.5, TypeError), (None, TypeError), (True, TypeError), ("1", TypeError)]:
        with pytest.raises(error):
            timer.advance_clock(bad)
    timer.close()
    with pytest.raises(TimerClosed):
        timer.advance_clock(0)


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
assert timer.size == 1
timer.close()
"""


@pytest.mark.parametrize("executor", ["None", "'inline'"])
@pytest.mark.parametrize("timeout_ms", [3_000_000, 2**62])
def test_ctrl_c_interrupts_the_wait(script, executor, timeout_ms):
    process = script(INTERRUPTED.format(executor=executor, timeout_ms=timeout_ms))
    assert process.stdout.readline() == "waiting\n"
    for _ in range(PATIENCE_S):
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)
        # After this one the program ends; a second would hit it on its way out.
        try:
            output, errors = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            continue                        # it came before the wait had begun
        break
    assert (process.returncode, output, errors) == (0, "interrupted\n", "")
