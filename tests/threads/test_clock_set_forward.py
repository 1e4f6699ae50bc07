"""A callable clock may be set forward: the next add tells a reaper that sleeps, or is about to, by an older reading."""

import threading

from waiting import eventually

HOUR_MS = 3_600_000


def timer_with_traps(make_timer, hand_clock, traps):
    """The last of the traps goes off when another thread than this one has read the clock."""

    def clock():
        now_ms = hand_clock.ms
        if traps and threading.current_thread() is not threading.main_thread():
            traps.pop()()
        return now_ms

    return make_timer(clock=clock, executor="inline")


def test_a_reaper_that_has_just_read_the_clock_hears_that_it_was_set_forward(make_timer, hand_clock):
    """The clock is set forward, and something is added, after the reaper has read it and before it sleeps."""
    ran, traps = [], []

    def add():
        hand_clock.ms += HOUR_MS
        timer.call_later(7200, ran.append, "later")

    timer = timer_with_traps(make_timer, hand_clock, traps)
    timer.call_later(3600, ran.append, "due")
    traps.append(add)
    timer.call_later(1800, ran.append, "first")
    eventually(lambda: ran == ["first", "due"])


def test_it_hears_of_it_by_the_newer_of_two_adds_also_if_the_older_comes_last(make_timer, hand_clock):
    """The reaper reads the clock, and one who adds does; then it is set forward, and another adds before both go on."""
    ran, traps = [], []

    def add_by_the_old_reading():
        traps.append(add_by_the_new_one)
        timer.call_later(7200, ran.append, "by the old reading")

    def add_by_the_new_one():
        hand_clock.ms += HOUR_MS
        timer.call_later(7200, ran.append, "by the new one")

    timer = timer_with_traps(make_timer, hand_clock, traps)
    timer.call_later(3600, ran.append, "due")
    traps.append(add_by_the_old_reading)
    timer.call_later(1800, ran.append, "first")
    eventually(lambda: ran == ["first", "due"])


def test_the_reading_that_an_add_takes_once_more_tells_it_too(make_timer, hand_clock):
    """The wheel's clock is ahead when something is added, so the clock is read again; and is ahead of both by then."""
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
    timer.call_later(30, ran.append, "by an old reading")
    eventually(lambda: sorted(ran) == ["by an old reading", "due", "first"])


def test_a_task_of_call_every_that_goes_back_tells_it_too(make_timer, hand_clock):
    ran = []

    def beat():
        ran.append("beat")
        if len(ran) == 1:
            hand_clock.ms += HOUR_MS  # the reaper sleeps by now, until the other one is due

    timer = make_timer(clock=hand_clock)
    timer.call_every(60, beat)
    timer.call_later(1800, ran.append, "other")
    hand_clock.ms += 60_000
    timer.call_later(7200, ran.append, "later")
    eventually(lambda: ran == ["beat", "other"])
