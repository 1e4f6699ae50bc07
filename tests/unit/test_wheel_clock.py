"""TimingWheel: advance_clock(), poll(), the buckets that they pass, and the order of tasks."""

from random import Random

import pytest

from hwheel import TimerTask, TimingWheel


def added(wheel, expiration_ms):
    task = TimerTask(0)
    assert wheel.add(task, expiration_ms)
    return task


def clocks_of(wheel):
    return [level.current_time_ms for level in wheel.snapshot().levels]


# --- advance_clock() -----------------------------------------------------------------------------------------------


def test_advance_clock_sets_the_clocks_of_all_levels_and_never_back():
    wheel = TimingWheel(tick_ms=10, wheel_size=5, start_ms=1000)
    added(wheel, 9000)
    assert clocks_of(wheel) == [1000, 1000, 1000, 0, 0]
    wheel.advance_clock(1509)
    assert clocks_of(wheel) == [1500, 1500, 1500, 1250, 0]
    for earlier_ms in (1499, 0, -1, -(2**63)):
        wheel.advance_clock(earlier_ms)
        assert clocks_of(wheel) == [1500, 1500, 1500, 1250, 0]


def test_passed_tasks_stay_pending_until_a_poll():
    wheel = TimingWheel(tick_ms=10, wheel_size=4)
    first, second = added(wheel, 35), added(wheel, 41)
    wheel.advance_clock(100)
    assert first.pending and second.pending and len(wheel) == 2
    assert wheel.next_expiration_ms == 30
    assert wheel.poll(29) == []
    assert wheel.poll(39) == [first]
    assert wheel.next_expiration_ms == 40
    assert second.cancel()
    assert wheel.next_expiration_ms is None


@pytest.mark.parametrize("way", ["reschedule", "cancel and add"])
def test_passed_bucket_that_was_emptied_is_reused(way, where):
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    task = added(wheel, 5)
    if way == "reschedule":
        wheel.advance_clock(10)
        assert task.reschedule(0.015)
    else:
        assert task.cancel()
        wheel.advance_clock(10)
        task = added(wheel, 25)
        assert wheel.next_expiration_ms == 25
    assert where(wheel, task) == (1, 5, 25)
    assert wheel.poll(24) == []
    assert wheel.poll(25) == [task]


@pytest.mark.parametrize("wheel_size", [2, 3, 7, 20])
@pytest.mark.parametrize("seed", range(20))
def test_polls_between_advances_agree_with_a_heap(wheel_size, seed):
    random = Random(seed)
    wheel = TimingWheel(1, wheel_size)
    pending, clock_ms, number = [], 0, 0
    for _ in range(300):
        choice = random.random()
        if choice < 0.5:
            expiration_ms = clock_ms + random.randrange(1, random.choice([5, 200, 500]))
            number += 1
            pending.append((expiration_ms, number, added(wheel, expiration_ms)))
        elif choice < 0.8:
            clock_ms += random.randrange(40)
            wheel.advance_clock(clock_ms)
        else:
            now_ms = clock_ms + random.randrange(-20, 20)
            pending.sort()
            expired = [task for expiration_ms, _, task in pending if expiration_ms <= now_ms]
            assert wheel.poll(now_ms) == expired
            pending = pending[len(expired) :]
            clock_ms = max(clock_ms, wheel.current_time_ms)


def test_snapshot_shows_passed_tasks_as_due():
    wheel = TimingWheel(1, 4)
    first, second, later = added(wheel, 3), added(wheel, 9), added(wheel, 100)
    wheel.advance_clock(20)
    snapshot = wheel.snapshot()
    assert snapshot.due == (first, second)
    assert [bucket.tasks for bucket in snapshot.queue] == [(later,)]
    assert wheel.poll(20) == [first, second]
    assert wheel.snapshot().due == ()


def test_large_backlog_stays_in_order():
    wheel = TimingWheel(1, 20)
    tasks = [added(wheel, 1000 + number // 2) for number in range(20_000)]
    wheel.advance_clock(20_000)
    assert len(wheel) == 20_000
    assert wheel.poll(20_000) == tasks


# --- poll() --------------------------------------------------------------------------------------------------------


def test_poll_moves_the_clocks_to_the_last_expired_bucket():
    wheel = TimingWheel()
    tasks = [added(wheel, 5), added(wheel, 450)]
    assert wheel.poll(430) == tasks[:1]
    assert clocks_of(wheel) == [400, 400, 400]


def test_advance_clock_returns_false_for_an_emptied_bucket(make_timer, hand_clock, eventually):
    timer = make_timer(clock=hand_clock, reaper=False)
    emptied, task = timer.call_later(0.01, int), timer.call_later(0.02, int)
    assert timer.advance_clock(0) is False
    assert emptied.cancel()
    for ms, worked in ((10, False), (9, False), (1, True), (0, False)):
        hand_clock.ms += ms
        assert timer.advance_clock(0) is worked
    eventually(lambda: task.expired)
