"""A callable clock may be set back (time.time, by NTP): nothing is early by it even then, and the order holds."""

import threading
from array import array

import pytest

import hwheel_core
from sampling import seeded_random
from waiting import eventually


@pytest.fixture
def make(make_timer, hand_clock):
    """Makes a timer on hand_clock whose callbacks run in advance_clock()."""
    return lambda **options: make_timer(executor="inline", clock=hand_clock, reaper=False, **options)


def later_ones(timer, ran, delays_ms):
    return [timer.call_later(delay_ms / 1000, ran.append, delay_ms) for delay_ms in delays_ms]


@pytest.mark.parametrize("wheel_size", [2, 20, 512])
@pytest.mark.parametrize("back_ms", [1, 2000, 500_000])
def test_what_is_added_after_it_waits_for_its_deadline(make, hand_clock, wheel_size, back_ms):
    timer = make(wheel_size=wheel_size)
    ran = []
    timer.call_later(5, ran.append, "before")
    hand_clock.ms += 5000
    timer.advance_clock(0)  # the wheel's clock is there now, too
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
def test_whichever_way_it_was_added(make, hand_clock, add):
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


def test_what_was_pending_keeps_its_deadline_and_its_place(make, hand_clock):
    timer = make()
    ran = []
    delays_ms = [700, 40_000, 300, 5_000_000, 301, 40_000]
    tasks = later_ones(timer, ran, delays_ms)
    timer.call_later(0.2, int)
    hand_clock.ms += 250
    timer.advance_clock(0)
    hand_clock.ms -= 900_000  # far: more levels are needed for what is pending
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


def test_what_is_due_when_it_is_added_still_runs_at_once(make, hand_clock):
    timer = make()
    ran = []
    timer.call_later(5, ran.append, 1)
    hand_clock.ms += 5000
    timer.advance_clock(0)
    hand_clock.ms -= 3000
    timer.call_later(0, ran.append, 2)
    timer.call_at(0, ran.append, 3)
    timer.advance_clock(0)
    assert ran == [1, 2, 3]


def test_what_is_due_when_it_is_added_waits_until_the_clock_comes_to_that_tick_again(make, hand_clock):
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
def test_with_a_clock_that_wanders_each_runs_once_and_never_early(make, hand_clock, seed):
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


def test_a_clock_that_fails_in_between_does_not_end_call_every(make_timer, hand_clock):
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
            fails.append(OSError("no clock now"))  # for the next reading: when the task goes back

    task = timer.call_every(1, run)
    hand_clock.ms += 1000
    timer.advance_clock(0)
    assert task.pending and [type(error) for error in reported] == [OSError]
    hand_clock.ms += 1000
    timer.advance_clock(0)
    assert runs == [1_001_000, 1_002_000]


@pytest.mark.parametrize("how", ["added", "moved"])
def test_a_batch_that_is_being_placed_meanwhile_loses_nothing(make_timer, hand_clock, how):
    # The last one is in the finest wheel's reach as long as the clock stands where it stood, and beyond it afterwards.
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


def test_a_batch_that_falls_due_again_and_again_while_its_executor_is_busy(make_timer, hand_clock):
    """Each time it leaves a place among what is due, and there are not so many."""
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


def test_what_waits_for_the_last_millisecond_that_there_is_keeps_waiting(make, hand_clock):
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
    """(how many levels a wheel whose clock stands there needs for a time, the tick of the last of them)."""
    levels = 1
    while time_ms - clock_ms // tick_ms * tick_ms >= tick_ms * wheel_size:
        levels, tick_ms = levels + 1, tick_ms * wheel_size
    return levels, tick_ms


def set_back_with_one_pending(make_timer, hand_clock, wheel, delay_ms, back_ms):
    """Sets the clock back by so much. There are as many levels then as what is pending needs, because its bucket has to
    fit as a whole; and it runs in its tick."""
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
    if hwheel_core.DEBUG:
        hwheel_core.debug_check(timer)
    hand_clock.ms = due_ms - due_ms % tick_ms - 1
    timer.advance_clock(0)
    assert ran == ["new"]
    hand_clock.ms += 1
    timer.advance_clock(0)
    assert ran == ["new", "pending"]
    timer.close()


@pytest.mark.parametrize("wheel", [(1, 2), (1, 20), (3, 7), (20, 5)], ids=str)
def test_there_are_as_many_levels_then_as_what_is_pending_needs(make_timer, hand_clock, wheel):
    tick_ms, wheel_size = wheel
    chance = seeded_random(wheel_size)
    for _ in range(300):
        hand_clock.ms = chance.randrange(10**6, 10**7)
        delay_ms = tick_ms * 2 + chance.randrange(tick_ms * wheel_size ** chance.randrange(1, 4))
        back_ms = tick_ms * 2 + chance.randrange(tick_ms * wheel_size ** chance.randrange(1, 4))
        set_back_with_one_pending(make_timer, hand_clock, wheel, delay_ms, back_ms)


@pytest.mark.parametrize("delay_ms", [5, 6, 7, 40])
def test_so_many_also_where_a_bucket_goes_on_beyond_the_last_millisecond(make_timer, hand_clock, delay_ms):
    """2**63 - 1 is a multiple of 7, so that the last bucket of seven begins with the last millisecond."""
    for back_ms in range(2, 60):
        hand_clock.ms = LAST_MS - delay_ms
        set_back_with_one_pending(make_timer, hand_clock, (1, 7), delay_ms, back_ms)


def test_what_is_due_at_once_does_not_wait_for_what_was_the_time(make, hand_clock):
    timer = make()
    ran = []
    timer.call_later(5, ran.append, "before")
    hand_clock.ms += 5000
    timer.advance_clock(0)
    hand_clock.ms -= 3000
    timer.call_later(1, ran.append, "earlier than it was")
    timer.call_later(0, ran.append, "at once")
    timer.advance_clock(0)
    assert ran == ["before", "at once"]
    hand_clock.ms += 1000
    timer.advance_clock(0)
    assert ran == ["before", "at once", "earlier than it was"]


def test_very_many_of_one_tick_stay_in_order(make, hand_clock):
    """More than a cascade moves at a time; and due when it does, because a coarse bucket begins with their tick."""
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
def test_of_a_batch_that_is_ready_only_what_is_due_is_handed_out_after_it(make, hand_clock, back_to_ms, cancelled):
    """A callback runs, and what fell due behind it waits, when the clock is set back between the batch's deadlines."""
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
def test_what_comes_first_while_the_clock_is_read_is_looked_at_itself(make_timer, kind):
    """In a reading, or meanwhile in another thread, what was first is cancelled; what is first then is not due yet."""
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


def test_what_is_due_after_it_is_handed_out_by_the_same_call(make, hand_clock):
    timer = make()
    begin_ms, ran = hand_clock.ms, []

    def first():
        hand_clock.ms = begin_ms + 12

    timer.call_later(0.005, first)
    timer.call_many(array("q", [10, 50]), ran.extend)
    hand_clock.ms += 100
    timer.advance_clock(0)
    assert ran == [0]
