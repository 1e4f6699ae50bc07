"""Buckets that cancels have emptied stay in the delay queue until the clock comes by: what is added beside them and
after them comes in order."""

import pytest

import hwheel_core
import sampling
from hwheel import TimerTask, TimingWheel


def check(wheel):
    if hwheel_core.DEBUG:
        hwheel_core.debug_check(wheel)


@pytest.mark.parametrize("seed", range(60))
def test_with_many_emptied_buckets_all_comes_in_order(seed):
    chance = sampling.seeded_random(seed)
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


def test_an_advance_says_whether_there_was_something_to_do(make_timer, hand_clock, eventually):
    timer = make_timer(clock=hand_clock, reaper=False)
    emptied, task = timer.call_later(0.01, int), timer.call_later(0.02, int)
    assert timer.advance_clock(0) is False
    assert emptied.cancel()
    hand_clock.ms += 10
    assert timer.advance_clock(0) is False
    hand_clock.ms += 9
    assert timer.advance_clock(0) is False
    hand_clock.ms += 1
    assert timer.advance_clock(0) is True
    assert timer.advance_clock(0) is False
    eventually(lambda: task.expired)
