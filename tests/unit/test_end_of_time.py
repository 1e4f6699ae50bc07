"""Times near 2^62 and at the end of 64 bits are placed correctly or refused."""

import time
from array import array

import pytest

from hwheel import ManualTimer, SystemTimer, TimerTask, TimingWheel
from programs import output_of

LAST_MS = 2**63 - 1
WHEELS = [(1, 2), (1, 20), (20, 10), (7, 3), (86_400_000, 256), (2**40, 2**20)]


@pytest.mark.parametrize(("tick_ms", "wheel_size"), WHEELS)
@pytest.mark.parametrize("start_ms", [0, 2**62 - 1, 2**62, 2**62 + 12345])
def test_extreme_times_expire_on_their_tick(tick_ms, wheel_size, start_ms):
    wheel = TimingWheel(tick_ms, wheel_size, start_ms)
    times = sorted(
        time_ms
        for time_ms in [2**62 + i for i in (-2, -1, 0, 1, 2, 500, 10**6)] + [LAST_MS - 10**6, LAST_MS - 1, LAST_MS]
        if time_ms >= wheel.current_time_ms + tick_ms
    )
    tasks = {}
    for time_ms in times:
        tasks[time_ms] = TimerTask(0)
        assert wheel.add(tasks[time_ms], time_ms)
    for time_ms in times:
        tick_start_ms = time_ms - time_ms % tick_ms
        if tasks[time_ms].pending:
            assert wheel.next_expiration_ms <= tick_start_ms
            assert tasks[time_ms] not in wheel.poll(tick_start_ms - 1)
            assert tasks[time_ms].pending
            assert tasks[time_ms] in wheel.poll(tick_start_ms)
        assert tasks[time_ms].expired
    assert len(wheel) == 0


@pytest.mark.parametrize(("tick_ms", "wheel_size"), WHEELS)
@pytest.mark.parametrize("start_ms", [0, 2**62, LAST_MS - 5 * 10**18])
def test_bucket_of_the_last_millisecond(tick_ms, wheel_size, start_ms, where):
    wheel = TimingWheel(tick_ms, wheel_size, start_ms)
    task = TimerTask(0)
    assert wheel.add(task, LAST_MS)
    level, level_tick_ms = 1, tick_ms
    while LAST_MS >= start_ms - start_ms % level_tick_ms + level_tick_ms * wheel_size:
        level, level_tick_ms = level + 1, level_tick_ms * wheel_size
    virtual_id = LAST_MS // level_tick_ms
    assert where(wheel, task) == (level, virtual_id % wheel_size, virtual_id * level_tick_ms)
    assert len(wheel.snapshot().levels) == level
    assert wheel.snapshot().levels[-1].interval_ms == level_tick_ms * wheel_size


def test_wheel_of_size_2_has_up_to_63_levels():
    wheel = TimingWheel(1, 2)
    task = TimerTask(0)
    assert wheel.add(task, LAST_MS)
    assert len(wheel.snapshot().levels) == 63
    polls = 0
    while task.pending:
        now_ms = wheel.next_expiration_ms
        assert now_ms is not None, "a task is pending"
        wheel.poll(now_ms)
        polls += 1
    assert polls <= 63
    assert wheel.current_time_ms == LAST_MS


def test_wheel_can_start_at_the_last_millisecond():
    wheel = TimingWheel(start_ms=LAST_MS)
    assert wheel.current_time_ms == LAST_MS
    task = TimerTask(0)
    assert not wheel.add(task, LAST_MS)
    assert task.expired


@pytest.mark.parametrize("never_early", [True, False])
@pytest.mark.parametrize("tick_ms", [1, 20])
def test_deadline_beyond_64_bits_is_refused(tick_ms, never_early):
    timer = ManualTimer(tick_ms=tick_ms, start_ms=2**62, never_early=never_early)
    stays = timer.add(TimerTask(100))
    before = (timer.stats(), timer.pending(), timer.time())
    too_long_ms = 2**62
    task = TimerTask(too_long_ms)
    for call in (
        lambda: timer.add(task),
        lambda: timer.call_later(too_long_ms / 1000, print),
        lambda: timer.call_at(9.3e15, print),
        lambda: timer.call_every(too_long_ms / 1000, print),
        lambda: stays.reschedule(too_long_ms / 1000),
        lambda: timer.advance(too_long_ms / 1000),
    ):
        with pytest.raises(OverflowError, match="64 bits"):
            call()
        assert (timer.stats(), timer.pending(), timer.time()) == before
    assert (task.pending, task.deadline_ms) == (False, None)
    assert ManualTimer().add(TimerTask(5)).pending


def test_longest_possible_delay():
    timer = ManualTimer(start_ms=1000, tick_ms=20)
    longest_ms = LAST_MS - 1000 - 19  # rounded up to its tick
    with pytest.raises(OverflowError):
        timer.add(TimerTask(longest_ms + 1))
    assert len(timer) == 0
    assert timer.add(TimerTask(longest_ms)).deadline_ms == LAST_MS - 19


SCRIPTS = {  # in a program, because an endless loop could not be interrupted here
    "advance to the last millisecond": (
        """
timer = ManualTimer(start_ms=2**63 - 1 - 10**18 - 1)
timer.add(TimerTask(10**18 + 1, print, "last"))
timer.advance(10**15)
print("before")
timer.advance(0.001)
print(len(timer))
""",
        "before last 0",
    ),
    "expired tasks at the last millisecond": (
        """
timer = ManualTimer(tick_ms=20, start_ms=2**63 - 1)
timer.add(TimerTask(0, print, "task"))
timer.call_many(array("q", [0, -3]), lambda indices: print(*indices))
timer.advance(0)
""",
        "task 0 1",
    ),
    "batch rounded beyond 64 bits": (
        """
timer = ManualTimer(tick_ms=20, start_ms=2**63 - 1)
try:
    timer.call_many(array("q", [0, 5]), print)
except OverflowError as error:
    print("delays_ms[1]" in str(error), len(timer), timer.stats().added)
""",
        "True 0 0",
    ),
}


@pytest.mark.parametrize(("script", "printed"), SCRIPTS.values(), ids=SCRIPTS)
def test_advance_near_the_last_millisecond_terminates(script, printed):
    start = "from array import array\nfrom hwheel import ManualTimer, TimerTask\n"
    assert output_of("-c", start + script).split() == printed.split()


def test_batch_with_one_deadline_beyond_64_bits_is_refused():
    timer = ManualTimer(start_ms=2**62)
    before = timer.stats()
    with pytest.raises(OverflowError, match=r"delays_ms\[2\]"):
        timer.call_many(array("q", [5, 2**62 - 1, 2**62, 7]), print)
    assert timer.stats() == before
    assert timer.call_many(array("q", [5, 2**62 - 1]), print).pending == 2


def test_difference_beyond_64_bits_is_refused():
    with SystemTimer(clock=lambda: LAST_MS, executor="inline", reaper=False) as timer:
        with pytest.raises(OverflowError, match="when does not fit"):
            timer.call_at(-(2**51), int)
        assert len(timer) == 0


def test_lateness_is_limited_to_64_bits(ran):
    for start_ms in (0, LAST_MS - 10):
        now = [start_ms]
        with SystemTimer(clock=lambda now=now: now[0], executor="inline", reaper=False) as timer:
            timer.call_later(-2.2e15, ran.append, start_ms)
            now[0] = LAST_MS
            timer.advance_clock(0)
            assert timer.stats().lateness.max == LAST_MS / 1000
    assert ran == [0, LAST_MS - 10]


def test_next_run_beyond_64_bits_ends_call_every(ran):
    errors = []
    timer = ManualTimer(start_ms=LAST_MS - 100, on_error=lambda source, error: errors.append((source, error)))
    every = timer.call_every(0.08, ran.append, 1)
    timer.advance(0.09)
    assert ran == [1] and every.cancelled and len(timer) == 0
    ((source, error),) = errors
    assert source is every and "the deadline of the next run does not fit into 64 bits" in str(error)


def test_max_lateness_beyond_64_bits_never_misses(ran):
    timer = ManualTimer(start_ms=LAST_MS - 10)
    timer.call_later(0.005, ran.append, 1, max_lateness=2e15)
    timer.advance(0.006)
    assert ran == [1] and timer.stats().missed == 0


@pytest.mark.parametrize(
    ("delay", "terms"), [(1, {"slack": 1}), (0.0100001, {})], ids=["with slack", "by a fraction of a millisecond"]
)
def test_rounded_deadline_beyond_64_bits_is_refused(delay, terms):
    with SystemTimer(clock=lambda: LAST_MS - 10, executor="inline", reaper=False) as timer:
        with pytest.raises(OverflowError, match="64 bits"):
            timer.call_later(delay, int, **terms)
        assert len(timer) == 0


def test_reaper_waiting_for_centuries_wakes_for_an_earlier_task(eventually):
    with SystemTimer() as timer:
        far = timer.call_later(200 * 365 * 86_400, int)
        time.sleep(0.05)  # lets the reaper fall asleep; without it, the test checks less
        near = timer.call_later(0.001, int)
        eventually(lambda: near.expired)
        assert far.cancel()
