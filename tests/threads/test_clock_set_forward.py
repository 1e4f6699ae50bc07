"""A callable clock that is set forward: the next add wakes a thread that sleeps, or is about to, by an older reading.

In the first test a thread of the test reaps in place of the timer's reaper, so that its first reading comes after
the named steps.
"""

import contextlib
import threading

import pytest

from hwheel import TimerClosed
from waiting import eventually

HOUR_MS = 3_600_000


@contextlib.contextmanager
def reaping(timer):
    """Dispatch expired tasks in another thread until the end of the block, which closes the timer."""

    def reap():
        with contextlib.suppress(TimerClosed):
            while True:
                timer.advance_clock(24 * HOUR_MS)

    thread = threading.Thread(target=reap)
    thread.start()
    try:
        yield
    finally:
        timer.close()
        thread.join()


def timer_with_hooks(make_timer, hand_clock, hooks):
    """Return a timer without a reaper. When another thread than this one reads the clock, the last hook is called."""

    def clock():
        now_ms = hand_clock.ms
        if hooks and threading.current_thread() is not threading.main_thread():
            hooks.pop()()
        return now_ms

    return make_timer(clock=clock, executor="inline", reaper=False)


@pytest.mark.parametrize("old_reading", [False, True])
def test_add_between_the_last_reading_and_the_sleep_reports_the_new_time(make_timer, hand_clock, old_reading):
    """The clock is set forward, and a task is added, after the reaper reads the clock and before it sleeps.

    With `old_reading`, another add reads the clock before that, and ends after the add that reads the new time.
    """
    ran, hooks = [], []

    def add_with_old_reading():
        hooks.append(add_with_new_reading)
        timer.call_later(7200, ran.append, "old reading")

    def add_with_new_reading():
        hand_clock.ms += HOUR_MS
        timer.call_later(7200, ran.append, "new reading")

    timer = timer_with_hooks(make_timer, hand_clock, hooks)
    timer.call_later(3600, ran.append, "due")
    timer.call_later(1800, ran.append, "first")
    hooks.append(add_with_old_reading if old_reading else add_with_new_reading)
    with reaping(timer):
        eventually(lambda: ran == ["first", "due"])
    assert hooks == []


def test_second_reading_of_an_add_reports_the_new_time(make_timer, hand_clock):
    """An add whose reading is behind the wheel's time reads the clock again, after the clock was set forward."""
    ran, readings_ms = [], []
    timer = make_timer(clock=lambda: readings_ms.pop() if readings_ms and is_adding() else hand_clock.ms)

    def is_adding():
        return threading.current_thread() is threading.main_thread()

    timer.call_later(60, ran.append, "first")
    timer.call_later(1800, ran.append, "due")
    hand_clock.ms += 60_000
    timer.call_later(7200, ran.append, "later")
    eventually(lambda: ran == ["first"])
    readings_ms.append(hand_clock.ms - 60_000)
    hand_clock.ms += HOUR_MS
    timer.call_later(30, ran.append, "old reading")
    eventually(lambda: sorted(ran) == ["due", "first", "old reading"])


def test_next_add_of_a_periodic_task_reports_the_new_time(make_timer, hand_clock):
    ran = []

    def beat():
        ran.append("beat")
        if len(ran) == 1:
            hand_clock.ms += HOUR_MS  # makes the other task due; the reaper learns of it when this task is added again

    timer = make_timer(clock=hand_clock)
    timer.call_every(60, beat)
    timer.call_later(1800, ran.append, "other")
    hand_clock.ms += 60_000
    timer.call_later(7200, ran.append, "later")
    eventually(lambda: ran == ["beat", "other"])
