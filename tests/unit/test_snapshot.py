"""snapshot() and the views of the levels."""

import pytest

from hwheel import TimerTask, TimingWheel


def test_an_empty_wheel_shows_one_level_and_nothing_in_it():
    snapshot = TimingWheel(tick_ms=20, wheel_size=10, start_ms=1005).snapshot()
    (level,) = snapshot.levels
    assert level == (20, 200, 1000, ())
    assert snapshot.queue == ()


def test_a_snapshot_is_immutable_and_stays_as_it_was():
    wheel = TimingWheel()
    task = TimerTask(5)
    wheel.add(task, 5)
    snapshot = wheel.snapshot()
    with pytest.raises(AttributeError):
        snapshot.levels = ()
    with pytest.raises(AttributeError):
        snapshot.levels[0].buckets = ()
    with pytest.raises(AttributeError):
        snapshot.queue[0].tasks = ()
    wheel.poll(5)
    assert snapshot.queue[0].tasks == (task,)
    assert wheel.snapshot().queue == ()


def test_only_buckets_that_hold_something_are_shown():
    wheel = TimingWheel()
    tasks = [TimerTask(0) for _ in range(3)]
    for task, expiration_ms in zip(tasks, (5, 6, 50), strict=True):
        wheel.add(task, expiration_ms)
    tasks[0].cancel()
    snapshot = wheel.snapshot()
    assert [bucket.tasks for bucket in snapshot.queue] == [(tasks[1],), (tasks[2],)]
    assert [len(level.buckets) for level in snapshot.levels] == [1, 1]


def test_the_queue_holds_the_same_buckets_in_the_order_in_which_they_fall_due():
    wheel = TimingWheel(wheel_size=5)
    for expiration_ms in (700, 3, 126, 24, 25, 1, 130, 600):
        wheel.add(TimerTask(0), expiration_ms)
    snapshot = wheel.snapshot()
    buckets = [bucket for level in snapshot.levels for bucket in level.buckets]
    assert sorted(snapshot.queue[1:], key=lambda bucket: bucket[:3]) == sorted(buckets, key=lambda b: b[:3])[1:]
    assert [bucket.expiration_ms for bucket in snapshot.queue] == sorted(b.expiration_ms for b in buckets)


def test_a_view_of_the_overflow_wheel_looks_from_its_level_on():
    wheel = TimingWheel(tick_ms=1, wheel_size=20, start_ms=30)
    assert wheel.overflow_wheel is None
    for expiration_ms in (35, 60, 61, 5000):
        wheel.add(TimerTask(0), expiration_ms)
    second = wheel.overflow_wheel
    third = second.overflow_wheel
    assert isinstance(second, TimingWheel)
    assert (second.tick_ms, second.wheel_size, second.interval_ms, second.current_time_ms) == (20, 20, 400, 20)
    assert (third.tick_ms, third.wheel_size, third.interval_ms, third.current_time_ms) == (400, 20, 8000, 0)
    assert third.overflow_wheel is None
    assert (len(wheel), len(second), len(third)) == (4, 3, 1)
    assert second.snapshot().levels == wheel.snapshot().levels[1:]
    assert third.snapshot().levels == wheel.snapshot().levels[2:]
    assert wheel.overflow_wheel is second


def test_a_view_takes_no_tasks_and_moves_no_clock():
    wheel = TimingWheel()
    wheel.add(TimerTask(0), 60)
    before = wheel.snapshot()
    view = wheel.overflow_wheel
    for call in (lambda: view.add(TimerTask(0), 70), lambda: view.advance_clock(40), lambda: view.poll(60)):
        with pytest.raises(TypeError, match="view"):
            call()
    assert wheel.snapshot() == before


def test_a_view_keeps_working_when_the_wheel_itself_is_gone():
    wheel = TimingWheel()
    wheel.add(TimerTask(0), 60)
    view = wheel.overflow_wheel
    del wheel
    assert view.tick_ms == 20
    assert view.snapshot().queue == ()  # its tasks went with the wheel
