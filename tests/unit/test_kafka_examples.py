"""Expectations of Kafka's own timer tests, and the worked examples of the literature, bucket for bucket."""

import time

import pytest

from hwheel import SystemTimer, TimerTask, TimingWheel

DELAYS_MS = [*range(5), *(delay for delay in range(10, 100) for _ in range(2)), *range(100, 500)]
assert len(DELAYS_MS) == 585


def add(wheel, expiration_ms):
    task = TimerTask(expiration_ms)
    assert wheel.add(task, expiration_ms)
    return task


# --- Kafka's tests of its timer ------------------------------------------------------------------------------------


def test_negative_delays_run_at_the_next_dispatch(ran):
    with SystemTimer(tick_ms=1, wheel_size=3, executor="inline", reaper=False) as timer:
        for delay_ms in range(-5, 0):
            timer.add(TimerTask(delay_ms, ran.append, delay_ms))
        assert ran == [], "no callback runs inside add()"
        assert timer.advance_clock(0)
        assert ran == [-5, -4, -3, -2, -1]
        assert not timer.advance_clock(0)


@pytest.mark.parametrize("executor", ["inline", None])
def test_585_tasks_run_once_and_in_order_on_a_real_clock(executor, ran):
    timer = SystemTimer("kafka", tick_ms=1, wheel_size=3, executor=executor, reaper=False)
    tasks = [timer.add(TimerTask(delay_ms, ran.append, place)) for place, delay_ms in enumerate(DELAYS_MS)]
    give_up = time.monotonic() + 60
    while len(timer) and time.monotonic() < give_up:
        timer.advance_clock(200)
    assert timer.close() == []
    assert ran == list(range(585))
    assert all(task.expired for task in tasks)
    assert timer.stats()[:3] == (585, 585, 0)


def wheel_from_1000():
    return TimingWheel(tick_ms=10, wheel_size=5, start_ms=1000)


def test_wheel_accepts_future_ticks_and_expires_the_current_one():
    wheel = wheel_from_1000()
    future, past, current = TimerTask(20), TimerTask(-1), TimerTask(5)
    assert wheel.add(future, 1020)
    assert not wheel.add(past, 999)
    assert not wheel.add(current, 1005)
    assert (future.pending, past.expired, current.expired) == (True, True, True)
    assert len(wheel) == 1


def test_clock_moves_by_whole_ticks():
    wheel = wheel_from_1000()
    wheel.advance_clock(1005)
    assert wheel.current_time_ms == 1000
    wheel.advance_clock(1010)
    assert wheel.current_time_ms == 1010
    wheel.advance_clock(1000)
    assert wheel.current_time_ms == 1010


def test_overflow_wheel_is_created_on_demand():
    wheel = wheel_from_1000()
    wheel.advance_clock(1010)
    assert wheel.overflow_wheel is None
    add(wheel, 1059)
    assert wheel.overflow_wheel is None
    add(wheel, 1060)
    overflow_wheel = wheel.overflow_wheel
    assert (overflow_wheel.tick_ms, overflow_wheel.interval_ms, overflow_wheel.current_time_ms) == (50, 250, 1000)
    add(wheel, 1061)
    assert wheel.overflow_wheel is overflow_wheel
    assert overflow_wheel.overflow_wheel is None
    assert len(overflow_wheel) == 2
    wheel.advance_clock(1060)
    assert (wheel.current_time_ms, overflow_wheel.current_time_ms) == (1060, 1050)


# --- placement and cascades ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tick_ms", "wheel_size", "expiration_ms", "bucket"),
    [
        (20, 10, 23, (1, 1, 20)),
        (20, 10, 230, (2, 1, 200)),
        (1, 20, 2, (1, 2, 2)),
        (1, 20, 237, (2, 11, 220)),
        (1, 20, 350, (2, 17, 340)),
        (1, 20, 450, (3, 1, 400)),
    ],
)
def test_bucket_of_a_new_task(tick_ms, wheel_size, expiration_ms, bucket, where):
    wheel = TimingWheel(tick_ms, wheel_size)
    assert where(wheel, add(wheel, expiration_ms)) == bucket


def test_tasks_around_450_ms_cascade_over_three_levels(where):
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    tasks = [add(wheel, expiration_ms) for expiration_ms in (450, 446, 455, 473)]
    assert [where(wheel, task) for task in tasks] == [(3, 1, 400)] * 4
    assert wheel.next_expiration_ms == 400
    (bucket,) = wheel.snapshot().queue
    assert bucket.tasks == tuple(tasks)
    assert wheel.poll(400) == []
    assert [where(wheel, task) for task in tasks] == [(2, 2, 440)] * 3 + [(2, 3, 460)]
    assert wheel.poll(440) == []
    assert [where(wheel, task) for task in tasks] == [(1, 10, 450), (1, 6, 446), (1, 15, 455), (2, 3, 460)]
    assert wheel.poll(449) == [tasks[1]]
    assert wheel.poll(450) == [tasks[0]]
    assert wheel.poll(473) == tasks[2:]


def test_empty_buckets_cause_no_wake_ups():
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    tasks = [add(wheel, 200), add(wheel, 840)]
    wake_ups, returned = [], []
    while wheel.next_expiration_ms is not None:
        now_ms = wheel.next_expiration_ms
        first = wheel.snapshot().queue[0]
        assert first.expiration_ms == now_ms
        assert first.tasks
        wake_ups.append(now_ms)
        if expired := wheel.poll(now_ms):
            returned.append((now_ms, expired))
    assert returned == [(200, [tasks[0]]), (840, [tasks[1]])]
    assert wake_ups == [200, 800, 840], "800 is the cascade of the second task"


# --- u = 1, n = 3, from c: the class comment of Kafka's TimingWheel ------------------------------------------------

C = 27 * 1000  # a multiple of the ticks of all four levels

# At c + k: (level, first and last time of the bucket), relative to c. The current bucket of a level is left out: finer
# levels cover its times.
BUCKETS_FROM_C = {
    0: [(1, 1, 1), (1, 2, 2), (2, 3, 5), (2, 6, 8), (3, 9, 17), (3, 18, 26)],
    1: [(1, 2, 2), (1, 3, 3), (2, 3, 5), (2, 6, 8), (3, 9, 17), (3, 18, 26)],
    2: [(1, 3, 3), (1, 4, 4), (2, 3, 5), (2, 6, 8), (3, 9, 17), (3, 18, 26)],
    3: [(1, 4, 4), (1, 5, 5), (2, 6, 8), (2, 9, 11), (3, 9, 17), (3, 18, 26)],
}
CLOCKS_FROM_C = {0: (0, 0, 0), 1: (1, 0, 0), 2: (2, 0, 0), 3: (3, 3, 0)}


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_buckets_of_kafkas_class_comment(k, where):
    wheel = TimingWheel(tick_ms=1, wheel_size=3, start_ms=C)
    wheel.advance_clock(C + k)
    assert not wheel.add(TimerTask(0), C + k)
    covered = set()
    for level, first, last in BUCKETS_FROM_C[k]:
        for time_ms in range(first, last + 1):
            if time_ms > k and time_ms not in covered:  # finer levels are listed first
                covered.add(time_ms)
                task = add(wheel, C + time_ms)
                tick_ms = 3 ** (level - 1)
                assert where(wheel, task) == (level, (C + time_ms) // tick_ms % 3, C + first), f"{time_ms} at c + {k}"
    assert covered == set(range(k + 1, 27))
    clocks = [level.current_time_ms - C for level in wheel.snapshot().levels]
    assert tuple(clocks) == CLOCKS_FROM_C[k]
    assert where(wheel, add(wheel, C + 27)) == (4, (C + 27) // 27 % 3, C + 27)


# --- seven tasks, tick 1 s, 3 buckets, from 14:40:20.558 (UTC+8) ---------------------------------------------------

START_MS = 1675752020558
AT_14_40_00 = 1675752000000


def second(time_ms):
    """Return the second within 14:40."""
    seconds, rest = divmod(time_ms - AT_14_40_00, 1000)
    assert rest == 0
    return seconds


def seven_tasks():
    """Return a wheel with seven tasks, and the tasks by number."""
    wheel = TimingWheel(tick_ms=1000, wheel_size=3, start_ms=START_MS)
    return wheel, {number: add(wheel, START_MS + number * 1000) for number in range(1, 8)}


def test_seven_tasks_are_placed_on_three_levels(where):
    wheel, tasks = seven_tasks()
    assert [level.tick_ms for level in wheel.snapshot().levels] == [1000, 3000, 9000]
    assert [second(level.current_time_ms) for level in wheel.snapshot().levels] == [20, 18, 12]
    seen = [(bucket.level, second(bucket.expiration_ms), bucket.tasks) for bucket in wheel.snapshot().queue]
    assert seen == [
        (1, 21, (tasks[1],)),
        (2, 21, (tasks[3],)),
        (3, 21, (tasks[7],)),
        (1, 22, (tasks[2],)),
        (2, 24, (tasks[4], tasks[5], tasks[6])),
    ]
    assert wheel.poll(wheel.next_expiration_ms) == [tasks[1]]
    assert where(wheel, tasks[3])[:2] == (1, 2)
    assert where(wheel, tasks[7])[:2] == (2, 2)
    assert [second(bucket.expiration_ms) for bucket in wheel.snapshot().queue] == [22, 23, 24, 27]


def test_seven_tasks_take_seven_advances():
    wheel, tasks = seven_tasks()
    advances = []
    while wheel.next_expiration_ms is not None:
        now_ms = wheel.next_expiration_ms
        advances.append((second(now_ms), wheel.poll(now_ms)))
    assert advances == [(20 + number, [tasks[number]]) for number in range(1, 8)]
    assert [level.tick_ms for level in wheel.snapshot().levels] == [1000, 3000, 9000]
    assert [second(level.current_time_ms) for level in wheel.snapshot().levels] == [27, 27, 21]
