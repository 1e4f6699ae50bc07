"""Buckets that cancels have emptied stay in the delay queue until their time, wherever in it they are: what is added to
one of them for its next turn leaves the queue in order."""

import pytest

import exploring
import hwheel_core
from hwheel import TimerTask, TimingWheel


def check(wheel):
    if hwheel_core.DEBUG:
        hwheel_core.debug_check(wheel)


def test_the_last_of_the_queue_rises_where_an_emptied_bucket_was():
    """The queue is [1, 10, 2, 11, 12, 3]: without 11, the 3 stands below the 10, and has to change places with it."""
    wheel = TimingWheel(1, 20, 0)
    for expiration_ms in [1, 10, 2, 11, 12, 3]:
        task = TimerTask(0)
        wheel.add(task, expiration_ms)
        task.cancel()
    wheel.advance_clock(13)
    late, soon = TimerTask(0), TimerTask(0)
    wheel.add(late, 31)
    check(wheel)
    wheel.add(soon, 30)
    check(wheel)
    assert wheel.next_expiration_ms == 30
    assert wheel.poll(40) == [soon, late]


@pytest.mark.parametrize("seed", range(60))
def test_with_many_emptied_buckets_all_comes_in_order(seed):
    chance = exploring.dice_of(seed)
    wheel_size = chance.choice([4, 20, 60])
    wheel = TimingWheel(1, wheel_size, 0)
    now = 0
    for _ in range(10):
        emptied = [(TimerTask(0), now + chance.randrange(1, wheel_size**2)) for _ in range(40)]
        for task, expiration_ms in emptied:
            wheel.add(task, expiration_ms)
        chance.shuffle(emptied)
        for task, _ in emptied:
            task.cancel()
        check(wheel)
        now += chance.randrange(wheel_size * 2)
        wheel.advance_clock(now)
        pending = []
        for _ in range(30):
            pending.append((now + chance.randrange(1, wheel_size**2), TimerTask(0)))
            wheel.add(pending[-1][1], pending[-1][0])
            check(wheel)
        expected = [task for _, task in sorted(pending, key=lambda pair: pair[0])]
        came = []
        while wheel.next_expiration_ms is not None:
            now = wheel.next_expiration_ms
            came += wheel.poll(now)
            check(wheel)
        assert came == expected
