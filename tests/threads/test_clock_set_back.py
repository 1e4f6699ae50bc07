"""A callable clock that is set back (such as time.time by NTP): nothing runs early, and the order holds."""

import threading
from array import array

import pytest

from invariants import check_invariants
from sampling import seeded_random
from waiting import eventually


@pytest.fixture
def make(make_timer, hand_clock):
    """Return a factory of timers on hand_clock whose callbacks run in advance_clock()."""
    return lambda **options: make_timer(executor="inline", clock=hand_clock, reaper=False, **options)


def add_all(timer, ran, delays_ms):
    return [timer.call_later(delay_ms / 1000, ran.append, delay_ms) for delay_ms in delays_ms]


@pytest.mark.parametrize("wheel_size", [2, 20, 512])
@pytest.mark.parametrize("back_ms", [1, 2000, 500_000])
def test_task_added_after_the_clock_was_set_back_waits_for_its_deadline(make, hand_clock, wheel_size, back_ms):
    timer = make(wheel_size=wheel_size)
    ran = []
    timer.call_later(5, ran.append, "before")
    hand_clock.ms += 5000
    timer.advance_clock(0)  # advances the wheel's clock to the same time
    assert ran == ["before"]
    hand_clock.ms -= back_ms
    timer.call_later(1, ran.append, "after")
    for _ in range(999):
        hand_clock.ms += 1
        timer.advance_clock(0)
        assert ran == ["before"]
    hand_clock.ms += 1
    timer.advance_clock(0)
    assert ran == ["before", "after"]


def add_later(timer, ran):
    timer.call_later(1, ran.append, 1)


def add_at(timer, ran):
    timer.call_at(timer.time() + 1, ran.append, 1)


def add_every(timer, ran):
    timer.call_every(1, ran.append, 1)


def add_many(timer, ran):
    timer.call_many(array("q", [1000]), ran.extend)


def move(timer, ran):
    assert timer.call_later(3600, ran.append, 1).reschedule(1)


@pytest.mark.parametrize("add", [add_later, add_at, add_every, add_many, move])
def test_every_kind_of_add_waits_for_its_deadline(make, hand_clock, add):
    timer = make()
    ran = []
    timer.call_later(100, int)
    hand_clock.ms += 100_000
    timer.advance_clock(0)
    hand_clock.ms -= 50_000
    add(timer, ran)
    hand_clock.ms += 999
    timer.advance_clock(0)
    assert ran == []
    hand_clock.ms += 1
    timer.advance_clock(0)
    assert len(ran) == 1


def test_pending_tasks_keep_their_deadlines_and_order(make, hand_clock):
    timer = make()
    ran = []
    delays_ms = [700, 40_000, 300, 5_000_000, 301, 40_000]
    tasks = add_all(timer, ran, delays_ms)
    timer.call_later(0.2, int)
    hand_clock.ms += 250
    timer.advance_clock(0)
    hand_clock.ms -= 900_000  # so far that pending tasks need more levels
    timer.call_later(0, int)
    timer.call_later(1, ran.append, "new")
    assert [task.deadline_ms for task in tasks] == [1_000_000 + delay_ms for delay_ms in delays_ms]
    seen = []
    while len(timer):
        hand_clock.ms += 997
        timer.advance_clock(0)
        seen += [hand_clock.ms] * (len(ran) - len(seen))
    assert ran == ["new", 300, 301, 700, 40_000, 40_000, 5_000_000]
    deadlines = [hand_clock.ms] + [1_000_000 + delay_ms for delay_ms in sorted(delays_ms)]
    assert all(when >= deadline for when, deadline in zip(seen[1:], deadlines[1:], strict=True))


def test_undispatched_expired_tasks_wait_until_the_clock_reaches_their_tick_again(make, hand_clock):
    timer = make(tick_ms=10)
    ran = []
    hand_clock.ms += 5
    timer.call_later(0, ran.append, "at once")
    timer.call_at(0, ran.append, "over")
    timer.call_many(array("q", [0]), ran.extend)
    hand_clock.ms -= 500
    timer.advance_clock(0)
    hand_clock.ms += 494
    timer.advance_clock(0)
    assert ran == []
    hand_clock.ms += 1  # the tick begins
    timer.advance_clock(0)
    assert ran == ["at once", "over", 0]


@pytest.mark.parametrize("seed", range(10))
def test_random_clock_steps_run_each_task_once_and_never_early(make, hand_clock, seed):
    chance = seeded_random(seed)
    timer = make(wheel_size=chance.choice([2, 5, 64]))
    tasks, early = [], []

    def check(number):
        if hand_clock.ms < tasks[number].deadline_ms:
            early.append(number)
        runs.append(number)

    runs = []
    for _ in range(400):
        hand_clock.ms = max(0, hand_clock.ms + chance.choice([1, 7, 300, 4000, -2, -900, -20_000]))
        tasks.append(timer.call_later(chance.choice([0.001, 0.05, 2, 60]), check, len(tasks)))
        timer.advance_clock(0)
    hand_clock.ms += 10_000_000
    timer.advance_clock(0)
    assert early == []
    assert sorted(runs) == list(range(400))


def test_failing_clock_does_not_end_a_periodic_task(make_timer, hand_clock):
    reported, runs = [], []
    fails = []

    def clock():
        if fails:
            raise fails.pop()
        return hand_clock.ms

    timer = make_timer(executor="inline", clock=clock, reaper=False, on_error=lambda _, error: reported.append(error))

    def run():
        runs.append(hand_clock.ms)
        if len(runs) == 1:
            fails.append(OSError("no clock now"))  # for the next reading, when the task is added again

    task = timer.call_every(1, run)
    hand_clock.ms += 1000
    timer.advance_clock(0)
    assert task.pending and [type(error) for error in reported] == [OSError]
    hand_clock.ms += 1000
    timer.advance_clock(0)
    assert runs == [1_001_000, 1_002_000]


@pytest.mark.parametrize("how", ["added", "moved"])
def test_batch_that_is_being_placed_loses_no_timer(make_timer, hand_clock, how):
    # The last timer fits into the finest wheel before the clock is set back, and not afterwards.
    hand_clock.ms = 1500
    delays_ms = array("q", [50]) * 2_000_000
    delays_ms.append(1500)
    with make_timer(clock=hand_clock, wheel_size=2, executor="inline", reaper=False) as timer:
        if how == "moved":
            batch = timer.call_many(array("q", [40]) * len(delays_ms), lambda due: None)
        start, added = threading.Event(), timer.stats().added

        def set_back():
            start.wait()
            while how == "added" and timer.stats().added == added:
                pass
            hand_clock.ms = 0
            timer.call_later(0.01, int)

        thread = threading.Thread(target=set_back)
        thread.start()
        start.set()
        if how == "moved":
            assert batch.reschedule(None, delays_ms) == len(delays_ms)
        else:
            batch = timer.call_many(delays_ms, lambda due: None)
        thread.join()
        assert len(batch.indices()) == batch.pending
        hand_clock.ms = 10_000
        timer.advance_clock(0)
        assert batch.pending == 0


def test_batch_that_expires_repeatedly_behind_a_busy_executor_runs_once(make_timer, hand_clock):
    """Each expiry takes an entry in the list of expired tasks, which must not fill up."""
    timer = make_timer(clock=hand_clock, reaper=False)
    is_busy, go_on, ran = threading.Event(), threading.Event(), []
    timer.call_later(0, lambda: (is_busy.set(), go_on.wait(60)))
    timer.advance_clock(0)
    assert is_busy.wait(60)
    timer.call_many(array("q", [10, 10, 10]), lambda indices: ran.append(list(indices)))
    for _ in range(5000):
        hand_clock.ms += 10
        timer.advance_clock(0)
        hand_clock.ms -= 10
        timer.call_later(0.001, ran.append, "cancelled").cancel()
    assert ran == []
    hand_clock.ms += 10
    timer.advance_clock(0)
    go_on.set()
    eventually(lambda: ran)
    assert ran == [[0, 1, 2]]


def test_timer_at_the_largest_deadline_keeps_waiting(make, hand_clock):
    last_ms = 2**63 - 1
    hand_clock.ms = last_ms - 10
    timer = make()
    ran = []
    timer.call_many(array("q", [1, 10]), ran.extend)
    hand_clock.ms += 1
    timer.advance_clock(0)
    assert ran == [0]
    hand_clock.ms -= 2
    timer.call_many(array("q", [1]), ran.extend)
    hand_clock.ms = last_ms - 1
    timer.advance_clock(0)
    assert (ran, len(timer)) == ([0, 0], 1)
    hand_clock.ms = last_ms
    timer.advance_clock(0)
    assert ran == [0, 0, 1]


LAST_MS = 2**63 - 1


def levels_that_reach(time_ms, clock_ms, tick_ms, wheel_size):
    """Return the number of levels that a wheel at clock_ms needs for a time, and the tick of the last level."""
    levels = 1
    while time_ms - clock_ms // tick_ms * tick_ms >= tick_ms * wheel_size:
        levels, tick_ms = levels + 1, tick_ms * wheel_size
    return levels, tick_ms


def set_back_with_one_pending(make_timer, hand_clock, wheel, delay_ms, back_ms):
    """Set the clock back while one task is pending, and check its run and the number of levels.

    The wheel must have enough levels for the whole bucket of the task.
    """
    tick_ms, wheel_size = wheel
    begin_ms = hand_clock.ms
    timer = make_timer(
        tick_ms=tick_ms, wheel_size=wheel_size, executor="inline", clock=hand_clock, reaper=False, never_early=False
    )
    ran = []
    due_ms = timer.call_later(delay_ms / 1000, ran.append, "pending").deadline_ms
    assert due_ms == begin_ms + delay_ms
    levels, bucket_tick_ms = levels_that_reach(due_ms, begin_ms, tick_ms, wheel_size)
    bucket_end_ms = min(due_ms - due_ms % bucket_tick_ms + bucket_tick_ms - 1, LAST_MS)
    hand_clock.ms -= back_ms
    timer.call_later(tick_ms / 1000, ran.append, "new")
    needed, _ = levels_that_reach(bucket_end_ms, hand_clock.ms, tick_ms, wheel_size)
    assert timer.stats().levels == max(levels, needed)
    check_invariants(timer)
    hand_clock.ms = due_ms - due_ms % tick_ms - 1
    timer.advance_clock(0)
    assert ran == ["new"]
    hand_clock.ms += 1
    timer.advance_clock(0)
    assert ran == ["new", "pending"]
    timer.close()


@pytest.mark.parametrize("wheel", [(1, 2), (1, 20), (3, 7), (20, 5)], ids=str)
def test_wheel_has_the_levels_that_pending_tasks_need(make_timer, hand_clock, wheel):
    tick_ms, wheel_size = wheel
    chance = seeded_random(wheel_size)
    for _ in range(300):
        hand_clock.ms = chance.randrange(10**6, 10**7)
        delay_ms = tick_ms * 2 + chance.randrange(tick_ms * wheel_size ** chance.randrange(1, 4))
        back_ms = tick_ms * 2 + chance.randrange(tick_ms * wheel_size ** chance.randrange(1, 4))
        set_back_with_one_pending(make_timer, hand_clock, wheel, delay_ms, back_ms)


@pytest.mark.parametrize("delay_ms", [5, 6, 7, 40])
def test_levels_are_right_for_a_bucket_that_ends_beyond_the_largest_time(make_timer, hand_clock, delay_ms):
    """2**63 - 1 is a multiple of 7, so the last bucket of 7 ms begins with the last millisecond."""
    for back_ms in range(2, 60):
        hand_clock.ms = LAST_MS - delay_ms
        set_back_with_one_pending(make_timer, hand_clock, (1, 7), delay_ms, back_ms)


def test_expired_task_does_not_wait_for_the_former_time(make, hand_clock):
    timer = make()
    ran = []
    timer.call_later(5, ran.append, "before")
    hand_clock.ms += 5000
    timer.advance_clock(0)
    hand_clock.ms -= 3000
    timer.call_later(1, ran.append, "earlier than it was")
    timer.call_later(0, ran.append, "at once")
    timer.call_at(0, ran.append, "at once")
    timer.advance_clock(0)
    assert ran == ["before", "at once", "at once"]
    hand_clock.ms += 1000
    timer.advance_clock(0)
    assert ran == ["before", "at once", "at once", "earlier than it was"]


def test_thousands_of_tasks_of_one_tick_keep_their_order(make, hand_clock):
    """The tasks exceed one slice of a cascade. They expire in it because their bucket begins with their tick."""
    timer = make(wheel_size=20)
    ran = []
    for number in range(5000):
        timer.call_at(1600, ran.append, number)
    timer.call_later(5, int)
    hand_clock.ms += 5000
    timer.advance_clock(0)
    hand_clock.ms -= 4000
    timer.call_later(1, int)
    hand_clock.ms = 1_600_000
    timer.advance_clock(0)
    assert ran == list(range(5000))


@pytest.mark.parametrize("back_to_ms", [11, 15, 20, 29])
@pytest.mark.parametrize("cancelled", [[], [0], [1], [0, 2]])
def test_ready_batch_dispatches_only_indices_that_are_still_due(make, hand_clock, back_to_ms, cancelled):
    """A callback sets the clock back to a time between the deadlines of a batch that has already expired."""
    timer = make()
    begin_ms, ran = hand_clock.ms, []
    delays_ms = array("q", [10, 12, 20, 30])

    def first():
        hand_clock.ms = begin_ms + back_to_ms
        batch.cancel(array("q", cancelled))

    timer.call_later(0.005, first)
    batch = timer.call_many(delays_ms, lambda indices: ran.extend((i, hand_clock.ms - begin_ms) for i in indices))
    hand_clock.ms += 100
    timer.advance_clock(0)
    for ms in range(back_to_ms, 32):
        hand_clock.ms = begin_ms + ms
        timer.advance_clock(0)
    due_ms = {i: max(delay_ms, back_to_ms) for i, delay_ms in enumerate(delays_ms) if i not in cancelled}
    assert ran == [*due_ms.items()]


@pytest.mark.parametrize("kind", ["a task", "a batch"])
def test_head_that_changes_during_a_clock_reading_is_checked_again(make_timer, kind):
    """A clock reading cancels the first expired task, and the next one is not due by that reading."""
    now_ms, in_reading, ran = 1000, [], []

    def clock():
        read_ms = now_ms
        if in_reading:
            in_reading.pop()()
        return read_ms

    def first():
        nonlocal now_ms
        now_ms = 1012
        in_reading.append(second.cancel)

    timer = make_timer(clock=clock, reaper=False, executor="inline")
    timer.call_later(0.005, first)
    second = timer.call_later(0.010, ran.append, "cancelled")
    if kind == "a task":
        timer.call_later(0.050, lambda: ran.append(now_ms))
    else:
        timer.call_many(array("q", [50]), lambda indices: ran.append(now_ms))
    now_ms = 1100
    timer.advance_clock(0)
    assert ran == []
    now_ms = 1050
    timer.advance_clock(0)
    assert ran == [1050]


def test_indices_that_are_still_due_are_dispatched_by_the_same_call(make, hand_clock):
    timer = make()
    begin_ms, ran = hand_clock.ms, []

    def first():
        hand_clock.ms = begin_ms + 12

    timer.call_later(0.005, first)
    timer.call_many(array("q", [10, 50]), ran.extend)
    hand_clock.ms += 100
    timer.advance_clock(0)
    assert ran == [0]
