"""hwheel.ExpiringDict with failing clocks, full timers, failing on_expire callbacks, and finalizers."""

import weakref

import pytest

from hwheel import ExpiringDict, ManualTimer, SystemTimer


class Thing:
    pass


def test_expired_value_is_released_when_its_key_is_set_again(hand_clock):
    with SystemTimer(clock=hand_clock, reaper=False, executor="inline") as timer:
        for use in [lambda d: d.set("a", 1), lambda d: d.setdefault("a", 1)]:
            d = ExpiringDict(10, timer=timer)
            thing, ends = Thing(), []
            weakref.finalize(thing, ends.append, 1)
            d["a"] = thing
            del thing
            hand_clock.ms += 10_000
            others = [Thing() for _ in range(100)]
            use(d)
            others += [Thing() for _ in range(100)]
            assert ends == [1] and d == {"a": 1} and len({*map(id, others)}) == 200


def test_finalizer_of_a_value_cannot_reach_its_dying_dict(timer):
    found = []

    class Looks:
        def __del__(self):
            found.append(ref())

    d = ExpiringDict(10, timer=timer)
    ref = weakref.ref(d)
    d["a"] = Looks()
    del d
    assert found == [None]


def test_expired_entries_found_by_pop_are_reported_even_if_on_expire_raises(hand_clock):
    calls = []

    def failing(pairs):
        calls.append(len(pairs))
        raise ArithmeticError

    with SystemTimer(clock=hand_clock, reaper=False, executor="inline", on_error=lambda task, error: None) as timer:
        d = ExpiringDict(10, timer=timer, on_expire=failing)
        d.update({i: i for i in range(5000)})
        hand_clock.ms += 10_000
        assert [d.pop(i, None) for i in range(5000)] == [None] * 5000
        d.update({i: i for i in range(5000)})
        for _ in range(5):
            timer.advance_clock(0)
        assert calls == [2048, 2048, 904] and len(d) == 5000
        d.clear()


def test_timer_filled_by_on_expire_accepts_the_task_of_the_dict():
    timer = ManualTimer(max_pending=2)
    expired = []

    def on_expire(pairs):
        expired.extend(pairs)
        while len(timer) < 2:
            timer.call_later(1000, int)

    d = ExpiringDict(10, timer=timer, on_expire=on_expire)
    d["a"] = 1
    d.set("b", 2, ttl=20)
    timer.advance(100)
    assert expired == [("a", 1), ("b", 2)]
    d["c"] = 3
    timer.advance(10)
    assert expired[2:] == [("c", 3)] and len(timer) == 2


@pytest.mark.parametrize("fails_at", range(1, 12))
@pytest.mark.parametrize("times", [1, 3])
def test_failing_clock_only_delays_the_expiry(fails_at, times):
    now, readings, told, errors = [1000], [], [], []

    def clock():
        if readings:
            readings[0] += 1
            if fails_at <= readings[0] < fails_at + times:
                raise ArithmeticError
        return now[0]

    timer = SystemTimer(clock=clock, reaper=False, executor="inline", on_error=lambda task, error: errors.append(error))
    d = ExpiringDict(10, timer=timer, on_expire=told.extend)
    d["a"] = 1
    d.set("b", 2, ttl=20)
    readings.append(0)
    for seconds in [10, 1, 9, 1, 1]:
        now[0] += 1000 * seconds
        try:
            timer.advance_clock(0)
        except ArithmeticError:
            pass
    readings.clear()
    for _ in range(2):
        now[0] += 1000
        timer.advance_clock(0)
    assert told == [("a", 1), ("b", 2)] and len(d) == 0
    timer.close()


@pytest.mark.parametrize("reading", range(1, 9))
def test_entry_added_while_the_task_is_moved_expires_in_time(hand_clock, reading):
    """The n-th reading of the clock adds "c", as another thread could while this one waits for the timer's lock.

    The dict then moves its task from "a" to "b", although it has already moved it to "c".
    """
    readings_left, gone = 0, []

    def clock():
        nonlocal readings_left
        readings_left -= 1
        if readings_left == 0:
            expiring.set("c", 1, ttl=0.1)
        return hand_clock()

    with SystemTimer(clock=clock, reaper=False, executor="inline") as timer:
        expiring = ExpiringDict(0.5, timer=timer, on_expire=lambda pairs: gone.extend(key for key, _ in pairs))
        expiring["a"] = 1
        readings_left = reading
        expiring.set("b", 1, ttl=0.2)
        was_put = readings_left <= 0
        readings_left = 0  # add nothing later
        hand_clock.ms += 110
        timer.advance_clock(0)
        assert gone == (["c"] if was_put else [])


@pytest.mark.parametrize("use", ["set", "touch"])
def test_task_is_moved_with_one_reading_of_the_clock(use):
    """The clock advances between two readings.

    If the dict read the clock twice, the task would seem late. It would be moved repeatedly until its bucket begins.
    """
    readings = 0

    def clock():
        nonlocal readings
        readings += 1
        assert readings < 1000
        return 1_000_000 + readings / 1000

    with SystemTimer(clock=clock, reaper=False, executor="inline") as timer:
        expiring = ExpiringDict(60, timer=timer)
        expiring["late"] = expiring["early"] = 1
        before = readings
        if use == "set":
            expiring.set("early", 1, ttl=5)
        else:
            assert expiring.touch("early", ttl=5)
        assert readings - before < 10
