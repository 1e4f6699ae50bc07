"""The worked examples of the literature on Kafka's timing wheel, bucket for bucket."""

import pytest

from hwheel import TimerTask, TimingWheel


def add(wheel, expiration_ms):
    """A pending task that is due at a time."""
    task = TimerTask(expiration_ms)
    assert wheel.add(task, expiration_ms)
    return task


# --- tick 20 ms, 10 buckets, now 0 ---------------------------------------------------------------------------------


def test_a_delay_of_5_is_due_at_once_with_a_tick_of_20():
    wheel = TimingWheel(tick_ms=20, wheel_size=10)
    task = TimerTask(5)
    assert not wheel.add(task, 5)
    assert task.expired
    assert len(wheel) == 0


def test_23_sits_in_the_bucket_from_20_to_40_with_a_tick_of_20(where):
    wheel = TimingWheel(tick_ms=20, wheel_size=10)
    task = add(wheel, 23)
    assert where(wheel, task) == (1, 1, 20)
    assert wheel.poll(19) == []
    assert wheel.poll(20) == [task]


def test_230_sits_on_level_2_falls_to_level_1_at_200_and_is_due_at_220(where):
    wheel = TimingWheel(tick_ms=20, wheel_size=10)
    task = add(wheel, 230)
    assert where(wheel, task) == (2, 1, 200)
    assert wheel.overflow_wheel.tick_ms == 200
    assert wheel.poll(199) == []
    assert where(wheel, task) == (2, 1, 200)
    assert wheel.poll(200) == []
    assert where(wheel, task) == (1, 1, 220)
    assert wheel.poll(219) == []
    assert wheel.poll(220) == [task]


# --- tick 1 ms, 20 buckets -----------------------------------------------------------------------------------------


def test_a_2_ms_task_is_in_bucket_2_and_later_tasks_reuse_the_buckets_that_the_clock_has_left(where):
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    two = add(wheel, 2)
    assert where(wheel, two) == (1, 2, 2)
    assert wheel.poll(2) == [two]
    assert wheel.current_time_ms == 2
    assert where(wheel, add(wheel, 2 + 8)) == (1, 10, 10)
    assert where(wheel, add(wheel, 2 + 19)) == (1, 1, 21)


def test_a_350_ms_task_is_in_bucket_17_of_level_2(where):
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    assert where(wheel, add(wheel, 350)) == (2, 17, 340)


def test_tasks_around_450_ms_share_bucket_1_of_level_3(where):
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    tasks = [add(wheel, expiration_ms) for expiration_ms in (450, 446, 455, 473)]
    assert [where(wheel, task) for task in tasks] == [(3, 1, 400)] * 4
    assert wheel.next_expiration_ms == 400
    (bucket,) = wheel.snapshot().queue
    assert bucket.tasks == tuple(tasks)


def test_a_450_ms_task_goes_from_level_3_over_level_2_at_400_and_level_1_at_440_and_is_due_at_450(where):
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    four_fifty, four_forty_six, four_fifty_five, four_seventy_three = (
        add(wheel, expiration_ms) for expiration_ms in (450, 446, 455, 473)
    )
    assert wheel.poll(400) == []
    assert where(wheel, four_fifty) == (2, 2, 440)
    assert where(wheel, four_forty_six) == (2, 2, 440)
    assert where(wheel, four_fifty_five) == (2, 2, 440)
    assert where(wheel, four_seventy_three) == (2, 3, 460)
    assert wheel.poll(440) == []
    assert where(wheel, four_fifty) == (1, 10, 450)
    assert where(wheel, four_forty_six) == (1, 6, 446)
    assert where(wheel, four_fifty_five) == (1, 15, 455)
    assert where(wheel, four_seventy_three) == (2, 3, 460)
    assert wheel.poll(449) == [four_forty_six]
    assert wheel.poll(450) == [four_fifty]
    assert wheel.poll(473) == [four_fifty_five, four_seventy_three]


def test_expiration_237_is_in_bucket_11_of_a_level_with_a_tick_of_20(where):
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    assert where(wheel, add(wheel, 237)) == (2, 11, 220)
    assert wheel.overflow_wheel.tick_ms == 20


# --- u = 1, n = 3, from c: the class comment of Kafka's TimingWheel ------------------------------------------------

C = 27 * 1000  # a start on a tick of all levels concerned

# At c + k, for each level above the due tick: (level, first and last time of the bucket), relative to c. A level's own
# current bucket holds nothing new: its times belong to the finer levels.
BUCKETS_FROM_C = {
    0: [(1, 1, 1), (1, 2, 2), (2, 3, 5), (2, 6, 8), (3, 9, 17), (3, 18, 26)],
    1: [(1, 2, 2), (1, 3, 3), (2, 3, 5), (2, 6, 8), (3, 9, 17), (3, 18, 26)],
    2: [(1, 3, 3), (1, 4, 4), (2, 3, 5), (2, 6, 8), (3, 9, 17), (3, 18, 26)],
    3: [(1, 4, 4), (1, 5, 5), (2, 6, 8), (2, 9, 11), (3, 9, 17), (3, 18, 26)],
}
CLOCKS_FROM_C = {0: (0, 0, 0), 1: (1, 0, 0), 2: (2, 0, 0), 3: (3, 3, 0)}


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_three_levels_of_three_buckets_cover_the_times_of_kafkas_class_comment(k, where):
    wheel = TimingWheel(tick_ms=1, wheel_size=3, start_ms=C)
    wheel.advance_clock(C + k)
    assert not wheel.add(TimerTask(0), C + k)
    covered = set()
    for level, first, last in BUCKETS_FROM_C[k]:
        for time in range(first, last + 1):
            if time > k and time not in covered:  # a finer level, which stands earlier in the list, has it
                covered.add(time)
                task = add(wheel, C + time)
                tick_ms = 3 ** (level - 1)
                assert where(wheel, task) == (level, (C + time) // tick_ms % 3, C + first), f"c + {time} at c + {k}"
    assert covered == set(range(k + 1, 27))
    clocks = [level.current_time_ms - C for level in wheel.snapshot().levels]
    assert tuple(clocks) == CLOCKS_FROM_C[k]
    fourth = add(wheel, C + 27)
    assert where(wheel, fourth) == (4, (C + 27) // 27 % 3, C + 27)


def test_a_task_at_c_plus_5_falls_from_level_2_to_level_1_at_c_plus_3(where):
    wheel = TimingWheel(tick_ms=1, wheel_size=3, start_ms=C)
    task = add(wheel, C + 5)
    assert where(wheel, task) == (2, 1, C + 3)
    assert wheel.poll(C + 3) == []
    assert where(wheel, task) == (1, 2, C + 5)
    assert wheel.poll(C + 4) == []
    assert wheel.poll(C + 5) == [task]


# --- the seven-task walk-through: tick 1 s, 3 buckets, from 14:40:20.558 (UTC+8) -----------------------------------

START_MS = 1675752020558
AT_14_40_00 = 1675752000000


def second(time_ms):
    """The second within 14:40."""
    seconds, rest = divmod(time_ms - AT_14_40_00, 1000)
    assert rest == 0
    return seconds


def seven_tasks():
    """The wheel with the seven tasks, and the tasks by number."""
    wheel = TimingWheel(tick_ms=1000, wheel_size=3, start_ms=START_MS)
    tasks = {}
    for number in range(1, 8):
        tasks[number] = TimerTask(number * 1000)
        assert wheel.add(tasks[number], START_MS + number * 1000)
    return wheel, tasks


def test_seven_tasks_make_levels_2_and_3_with_clocks_14_40_18_and_14_40_12():
    wheel, _ = seven_tasks()
    assert [level.tick_ms for level in wheel.snapshot().levels] == [1000, 3000, 9000]
    assert [second(level.current_time_ms) for level in wheel.snapshot().levels] == [20, 18, 12]


def test_seven_tasks_start_in_five_buckets_and_three_of_them_fall_due_at_21():
    wheel, tasks = seven_tasks()
    seen = [(bucket.level, second(bucket.expiration_ms), bucket.tasks) for bucket in wheel.snapshot().queue]
    assert seen == [
        (1, 21, (tasks[1],)),
        (2, 21, (tasks[3],)),
        (3, 21, (tasks[7],)),
        (1, 22, (tasks[2],)),
        (2, 24, (tasks[4], tasks[5], tasks[6])),
    ]


def test_the_first_advance_of_the_walk_through_runs_task_1_and_moves_tasks_3_and_7_down(where):
    wheel, tasks = seven_tasks()
    assert second(wheel.next_expiration_ms) == 21
    assert wheel.poll(wheel.next_expiration_ms) == [tasks[1]]
    assert where(wheel, tasks[3])[:2] == (1, 2)
    assert where(wheel, tasks[7])[:2] == (2, 2)
    assert [second(bucket.expiration_ms) for bucket in wheel.snapshot().queue] == [22, 23, 24, 27]


def test_the_walk_through_takes_seven_advances_and_keeps_its_levels():
    wheel, tasks = seven_tasks()
    advances = []
    while wheel.next_expiration_ms is not None:
        now_ms = wheel.next_expiration_ms
        advances.append((second(now_ms), wheel.poll(now_ms)))
    assert advances == [(20 + number, [tasks[number]]) for number in range(1, 8)]
    assert [level.tick_ms for level in wheel.snapshot().levels] == [1000, 3000, 9000]
    assert [second(level.current_time_ms) for level in wheel.snapshot().levels] == [27, 27, 21]


# --- no empty ticks ------------------------------------------------------------------------------------------------


def test_timers_at_200_and_840_ms_need_two_polls_that_return_tasks_and_none_for_an_empty_bucket():
    wheel = TimingWheel(tick_ms=1, wheel_size=20)
    tasks = [add(wheel, 200), add(wheel, 840)]
    wake_ups, returned = [], []
    while wheel.next_expiration_ms is not None:
        now_ms = wheel.next_expiration_ms
        first = wheel.snapshot().queue[0]
        assert first.expiration_ms == now_ms
        assert first.tasks
        wake_ups.append(now_ms)
        if due := wheel.poll(now_ms):
            returned.append((now_ms, due))
    assert returned == [(200, [tasks[0]]), (840, [tasks[1]])]
    assert wake_ups == [200, 800, 840]  # 800: the cascade that moves 840 down, which has work
