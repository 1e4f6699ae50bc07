"""dump() and load() in virtual time: what comes back, when, and what is refused."""

import functools
import hashlib
import pickle
import random
import time
from array import array
from contextvars import copy_context
from types import SimpleNamespace

import pytest

from hwheel import DelayQueue, DumpError, ExpiringDict, ManualTimer, SystemTimer, TimerClosed, TimerFull, TimerTask
from hwheel.timers.dump import HEAD, MAGIC, VERSION
from hwheel.types import Loaded

NOW = 1_800_000_000
RAN = []


def note(*args, **kwargs):
    RAN.append((args, kwargs) if kwargs else args)


DUMPED_INSIDE = [None]


def dump_inside():
    DUMPED_INSIDE[0] = DUMPED_INSIDE[0].dump(now=NOW)


class Session:
    """Something that several timers share."""

    def __init__(self, name):
        self.name, self.noted = name, []

    def note(self):
        self.noted.append(self.name)
        RAN.append(self)


@pytest.fixture(autouse=True)
def nothing_ran():
    RAN.clear()
    yield
    RAN.clear()


def full():
    """A timer with something of every kind that can be written."""
    timer = ManualTimer()
    timer.call_later(5, note, "later")
    timer.call_at(7, note, "at", 1, 2)
    timer.add(TimerTask(3000, note, "task", key="word"))
    timer.group().call_later(4, note, "group")
    timer.call_every(2, note, "every")
    return timer


def moved(timer, seconds=0.0, **options):
    """What load() makes of a dump, so many seconds later."""
    new = ManualTimer()
    return new, new.load(timer.dump(now=NOW), now=NOW + seconds, **options)


def test_all_that_was_pending_runs_in_the_other_timer_at_its_time_and_in_order():
    old = full()
    old.advance(1)
    new, loaded = moved(old, 0.5)
    assert (old.closed, len(old), len(new), loaded.overdue) == (True, 0, 5, [])
    assert [task.delay_ms for task in loaded.tasks] == [500, 1500, 2500, 3500, 5500]
    assert loaded.tasks[1].kwargs == {"key": "word"} and loaded.tasks[1].args == ("task",)
    for seconds, ran in [(0.499, 0), (0.001, 1), (1, 2), (1, 4), (1, 5), (2, 7)]:
        new.advance(seconds)
        assert len(RAN) == ran, RAN
    wanted = [("every",), (("task",), {"key": "word"}), ("group",), ("every",), ("later",), ("every",), ("at", 1, 2)]
    assert RAN[:2] == wanted[:2] and sorted(map(str, RAN)) == sorted(map(str, wanted))
    assert len(new) == 1 and loaded.tasks[0].cancel() and len(new) == 0


def test_slack_max_lateness_and_jitter_come_back_too():
    old = ManualTimer()
    old.call_later(0.005, note, "put off", slack=0.01)
    old.group().call_later(0.006, note, "missed", max_lateness=0.5)
    old.call_every(10, note, "every", jitter=0.5, random=random.Random(3), slack=0.25, max_lateness=60)
    old.call_every(10, note, "system", jitter=0.5)
    new, loaded = moved(old, 1)
    missed, put_off, *every = loaded.tasks
    new.advance(0)
    assert RAN == [("put off",)] and missed.missed and new.stats().missed == 1
    assert all(9000 <= task.delay_ms <= 9750 for task in every)
    new.advance(20)
    assert RAN.count(("every",)) == RAN.count(("system",)) == 2
    # The numbers that come next are those that would have come: the first, 0.238, was drawn by the old timer.
    dice = random.Random(3)
    drawn = [dice.random() for _ in range(3)]
    deadline_ms = next(task.deadline_ms for task in new.pending() if task.args == ("every",))
    assert deadline_ms - 29_000 >= drawn[2] * 500 and (deadline_ms - 29_000) - drawn[2] * 500 <= 251
    new.close()


def test_the_dump_counts_as_a_close():
    timer = full()
    timer.dump(now=NOW)
    stats = timer.stats()
    assert stats.added == 5 and stats.pending == stats.expired == stats.cancelled == 0
    assert timer.close() == []
    with pytest.raises(TimerClosed):
        timer.call_later(1, note)
    with pytest.raises(TimerClosed):
        timer.dump()


def test_an_empty_timer_has_a_dump():
    new, loaded = moved(ManualTimer())
    assert loaded == Loaded([], []) and len(new) == 0


def test_tasks_of_one_tick_keep_their_order():
    old = ManualTimer()
    for number in range(50):
        old.call_later(1 if number % 3 else 1.0004, note, number)
    moved(old)[0].advance(2)
    first = [number for number in range(50) if number % 3]
    assert RAN == [(number,) for number in [*first, *range(0, 50, 3)]]


def test_what_two_tasks_share_they_share_again():
    old, session, alone = ManualTimer(), Session("a"), Session("b")
    old.call_later(1, session.note)
    old.call_later(2, session.note)
    old.call_every(3, alone.note)
    new, _ = moved(old)
    new.advance(5)
    assert [one.name for one in RAN] == ["a", "a", "b"] and RAN[0] is RAN[1] is not session
    assert RAN[0].noted == ["a", "a"] and session.noted == []


def test_no_callback_and_a_partial_come_back():
    old = ManualTimer()
    old.add(TimerTask(1000))
    old.call_later(1, functools.partial(note, key=1), 2)
    new, loaded = moved(old)
    assert loaded.tasks[0].callback is None
    new.advance(1)
    assert RAN == [((2,), {"key": 1})]


# --- what is overdue ----------------------------------------------------------------------------------------------


def test_what_is_overdue_runs_at_once_in_its_order():
    old = ManualTimer()
    for delay in (30, 10, 20, 100):
        old.call_later(delay, note, delay)
    new, loaded = moved(old, 60)
    assert [task.delay_ms for task in loaded.tasks] == [-50_000, -40_000, -30_000, 40_000] and loaded.overdue == []
    new.advance(0)
    assert RAN == [(10,), (20,), (30,)]
    new.advance(40)
    assert RAN[3:] == [(100,)]


def test_what_is_overdue_is_returned_if_wanted_and_not_added():
    old = ManualTimer()
    for delay in (30, 10, 60, 60.0005):
        old.call_later(delay, note, delay)
    new, loaded = moved(old, 60, overdue="return")
    assert [task.delay_ms for task in loaded.overdue] == [-50_000, -30_000, 0]
    assert [task.delay_ms for task in loaded.tasks] == [1] and len(new) == 1
    assert not any(task.pending or task.expired or task.cancelled for task in loaded.overdue)
    loaded.overdue[0].run()
    assert RAN == [(10,)]
    assert new.add(loaded.overdue[1]).pending
    new.advance(1)
    assert RAN == [(10,), (30,), (60.0005,)]


def test_a_clock_of_the_machine_that_is_set_back_makes_it_later():
    old = ManualTimer()
    old.call_later(10, note, 1)
    new, loaded = moved(old, -3600)
    assert loaded.tasks[0].delay_ms == 3_610_000


@pytest.mark.parametrize(
    ("missed", "wanted"), [("skip", [100, 105, 110]), ("burst", [100] * 18 + [105, 110]), ("delay", [100, 110])]
)
def test_a_task_of_call_every_that_is_overdue_runs_at_once_and_then_as_missed_says(missed, wanted):
    old = ManualTimer()
    old.call_every(5, note, missed_ticks=missed)
    old.advance(13)  # runs at 5 and 10; the next is due at 15
    RAN.clear()
    times = []
    new = ManualTimer(start_ms=100_000)
    [task] = new.load(old.dump(now=NOW + 13), now=NOW + 100).tasks
    before = 0
    for at in range(100, 111):
        new.advance_to(at)
        times += [at] * (len(RAN) - before)
        before = len(RAN)
    assert times[: len(wanted)] == wanted if missed != "delay" else times == [100, 105, 110]
    task.cancel()


@pytest.mark.parametrize("missed", ["skip", "burst", "delay"])
def test_with_return_a_task_of_call_every_goes_on_at_the_next_time_of_its_grid(missed):
    old = ManualTimer()
    old.call_every(5, note, missed_ticks=missed)
    old.advance(13)
    new = ManualTimer(start_ms=101_000)
    [task] = new.load(old.dump(now=NOW + 13), now=NOW + 101, overdue="return").tasks
    assert task.deadline_ms == 105_000
    RAN.clear()
    new.advance(9)
    assert len(RAN) == 2 and task.cancel()


def test_with_return_a_time_of_call_every_that_is_just_now_is_over():
    old = ManualTimer()
    old.call_every(5, note)
    new = ManualTimer()
    [task] = new.load(old.dump(now=NOW), now=NOW + 5, overdue="return").tasks
    assert task.deadline_ms == 5000 and task.cancel()


def test_a_timer_that_is_closed_loads_nothing_also_where_nothing_is_to_be_added():
    old, new = ManualTimer(), ManualTimer()
    old.call_later(5, note)
    data = old.dump(now=NOW)
    new.close()
    for again in (data, ManualTimer().dump()):
        with pytest.raises(TimerClosed):
            new.load(again, now=NOW + 10, overdue="return")


def test_the_time_of_day_is_that_at_which_the_timers_clock_is_read(monkeypatch):
    """A callback that runs while dump() begins may go on for long: what is pending is not early for that."""
    times = iter([NOW * 10**9, (NOW + 7) * 10**9])
    monkeypatch.setattr("hwheel.timers.dump.time", SimpleNamespace(time_ns=lambda: next(times)))
    old, new = ManualTimer(), ManualTimer()
    old.call_later(10, note)
    [task] = new.load(old.dump(), now=NOW + 7).tasks
    assert task.deadline_ms == 10_000 and task.cancel()


def test_the_grid_of_call_every_is_kept_and_so_is_a_run_that_was_rescheduled():
    old = ManualTimer()
    old.call_every(10, note).reschedule(3)
    new = ManualTimer()
    [task] = new.load(old.dump(now=NOW), now=NOW + 1).tasks
    assert task.deadline_ms == 2000
    new.advance(2)
    assert len(RAN) == 1 and task.deadline_ms == 19_000  # 20 s after the beginning, as it would have been
    task.cancel()


def test_a_task_of_call_every_that_runs_while_dump_is_called_is_written_with_its_next_run():
    old = DUMPED_INSIDE[0] = ManualTimer()
    task = old.call_every(5, dump_inside)
    old.call_later(5, note, "after")
    old.advance(60)
    assert task.cancelled and RAN == []
    data, DUMPED_INSIDE[0] = DUMPED_INSIDE[0], None
    new = ManualTimer()
    loaded = new.load(data, now=NOW)
    assert [(one.delay_ms, one.callback) for one in loaded.tasks] == [(0, note), (5000, dump_inside)]
    new.close()


def test_a_task_that_cancels_itself_while_it_runs_is_not_written():
    old, dumped = ManualTimer(), []
    old.call_later(0.001, note)
    task = old.call_every(5, print)
    task.cancel()
    dumped.append(old.dump(now=NOW))
    assert len(ManualTimer().load(dumped[0], now=NOW).tasks) == 1


# --- nothing has changed ------------------------------------------------------------------------------------------


class Own(TimerTask):
    def run(self):
        pass


def with_a_dict(timer):
    made = ExpiringDict(50, timer=timer)
    made["a"] = 1
    timer.kept = made  # or it is gone at once
    return timer.pending()[-1]


def a_generator():
    yield


CASES = [
    ("a lambda", lambda timer: timer.call_later(50, lambda: None), "pickle"),
    ("a generator", lambda timer: timer.call_later(50, note, a_generator()), "generator"),
    ("a context", lambda timer: timer.call_later(50, note, context=copy_context()), "Context"),
    ("a subclass", lambda timer: timer.add(Own(50_000)), "Own"),
    ("a batch", lambda timer: timer.call_many(array("q", [50_000]), note), "batch of call_many"),
    ("an ExpiringDict", with_a_dict, "ContainerAlarm"),
    ("call_every", lambda timer: timer.call_every(50, note, a_generator()), "generator"),
]


@pytest.mark.parametrize(("name", "add", "says"), CASES, ids=[name for name, _, _ in CASES])
def test_what_cannot_be_written_is_named_and_nothing_has_changed(name, add, says):
    timer = full()
    bad = add(timer)
    before, tasks = timer.stats(), timer.pending()
    for _ in range(2):
        with pytest.raises(DumpError, match=says) as caught:
            timer.dump(now=NOW)
        if name not in ("a batch",):
            assert repr(bad).partition(" ")[0] in str(caught.value)
    assert timer.stats() == before and timer.pending() == tasks and not timer.closed
    timer.advance(5)
    assert len(RAN) == 5
    if bad is not None:
        bad.cancel()
    assert len(ManualTimer().load(timer.dump(now=NOW), now=NOW).tasks) == 2


def test_queues_on_the_same_timer_are_named():
    timer = ManualTimer()
    DelayQueue(timer=timer).put(1, 50)
    queue = DelayQueue(timer=timer)
    queue.put(1, 50)
    if len(timer):
        with pytest.raises(DumpError, match="class is"):
            timer.dump()
    timer.close()


def test_a_task_that_comes_in_while_others_are_tried_is_written_too():
    class Adds:
        def __reduce__(self):
            if not timer.closed and len(timer) < 5:
                timer.call_later(9, note, "came in")
            return str, ()

    timer = ManualTimer()
    timer.call_later(1, note, Adds())
    timer.call_later(2, note, Adds())
    loaded = ManualTimer().load(timer.dump(now=NOW), now=NOW)
    assert [task.args for task in loaded.tasks] == [("",), ("",), ("came in",), ("came in",)]


def test_what_failed_in_a_task_that_was_cancelled_meanwhile_fails_in_the_next_one_that_shares_it():
    class Cancels:
        def __reduce__(self):
            first.cancel()
            raise RuntimeError("not at all")

    timer, shared = ManualTimer(), [Cancels()]
    first, second = timer.call_later(1, note, shared), timer.call_later(2, note, shared)
    with pytest.raises(DumpError, match="not at all"):
        timer.dump()
    assert not timer.closed and timer.pending() == [second]


def test_adds_without_an_end_are_an_error_and_the_timer_goes_on():
    class Endless:
        def __reduce__(self):
            timer.call_later(9, note, Endless())
            return str, ()

    timer = ManualTimer()
    timer.call_later(1, note, Endless())
    with pytest.raises(DumpError, match="faster"):
        timer.dump()
    assert not timer.closed and len(timer) > 2
    timer.close()


class Turns:
    """It can be pickled so many times."""

    def __init__(self, times):
        self.times = times

    def __reduce__(self):
        self.times -= 1
        if self.times < 0:
            raise RuntimeError("not any more")
        return str, ()


def test_what_was_changed_while_the_timer_closed_loses_nothing():
    for again in ("dump", "close"):
        timer, turns = full(), Turns(1)
        timer.call_later(50, note, turns)
        with pytest.raises(DumpError, match="has changed"):
            timer.dump(now=NOW)
        assert timer.closed
        if again == "close":
            assert len(timer.close()) == 6
        else:
            turns.times = 1
            assert len(ManualTimer().load(timer.dump(now=NOW), now=NOW).tasks) == 6
        assert timer.close() == []


def test_an_interruption_in_the_writing_loses_nothing():
    class Interrupts(Turns):
        def __reduce__(self):
            try:
                return super().__reduce__()
            except RuntimeError:
                raise KeyboardInterrupt from None

    timer = full()
    timer.call_later(50, note, Interrupts(0))
    with pytest.raises(KeyboardInterrupt):
        timer.dump()
    assert not timer.closed and len(timer) == 6
    timer.pending()[-1].args[0].times = 1
    with pytest.raises(KeyboardInterrupt):
        timer.dump()
    assert timer.closed and len(timer.close()) == 6


# --- other bytes --------------------------------------------------------------------------------------------------


def dump_of(times, *calls):
    body = pickle.dumps(times) + b"".join(map(pickle.dumps, calls))
    return HEAD.pack(MAGIC, VERSION, len(body), hashlib.blake2b(body, digest_size=16).digest()) + body


def refused(data, says=None, **options):
    timer = ManualTimer()
    timer.call_later(1, note)
    before = timer.stats()
    with pytest.raises(DumpError, match=says):
        timer.load(data, **options)
    assert timer.stats() == before and len(timer) == 1
    timer.close()


def test_other_bytes_are_an_error_that_says_what_they_are():
    good = full().dump(now=NOW)
    refused(b"", "not a dump")
    refused(b"something else entirely, but long enough to be one", "not a dump")
    refused(good[:-1], "incomplete")
    refused(good + b"x", "incomplete")
    refused(good[: HEAD.size], "incomplete")
    refused(good[:-1] + bytes([good[-1] ^ 1]), "changed")
    refused(good.replace(MAGIC, b"hwheelE\n"), "not a dump")
    refused(good[: len(MAGIC)] + b"\x00\x07" + good[len(MAGIC) + 2 :], "version 7")
    refused(pickle.dumps([]), "not a dump")


def test_a_dump_whose_function_is_gone_says_so_and_which_task_it_is(monkeypatch):
    old = ManualTimer()
    old.call_later(1, print)
    old.call_later(2, note)
    data = old.dump(now=NOW)
    monkeypatch.delitem(globals(), "note")
    timer = ManualTimer()
    with pytest.raises(DumpError, match="task 2 of 2 cannot be read"):
        timer.load(data)
    assert len(timer) == 0


@pytest.mark.parametrize(
    ("times", "calls"),
    [
        (None, ()),
        ({}, ()),
        ([5], ((print, (), {}, None),)),
        ([(5,)], ((print, (), {}, None),)),
        ([(5.0, None, None)], ((print, (), {}, None),)),
        ([(True, None, None)], ((print, (), {}, None),)),
        ([(5, None, (0, "skip", 1, 0))], ((print, (), {}, None),)),
        ([(5, None, (-1, "skip", 1, 0))], ((print, (), {}, None),)),
        ([(5, None, (1, "never", 1, 0))], ((print, (), {}, None),)),
        ([(5, None, (1, [], 1, 0))], ((print, (), {}, None),)),
        ([(5, None, (1, "skip", 1.0, 0))], ((print, (), {}, None),)),
        ([(5, None, (1, "skip", 1, -1))], ((print, (), {}, None),)),
        ([(5, None, (2**90, "skip", 1, 0))], ((print, (), {}, None),)),
        ([(5, None, (1, "skip", 1, 0))], ((None, (), {}, None),)),
        ([(5, None, (1, "skip", 1, 1))], ((print, (), {}, 5),)),
        ([(5, (1,), None)], ((print, (), {}, None),)),
        ([(5, (1, -1), None)], ((print, (), {}, None),)),
        ([(5, (1, "2"), None)], ((print, (), {}, None),)),
        ([(5, None, None)], ()),
        ([(5, None, None)], ((5, (), {}, None),)),
        ([(5, None, None)], ((print, [], {}, None),)),
        ([(5, None, None)], ((print, (), {1: 2}, None),)),
        ([(5, None, None)], ((print, (), {}, random.random),)),
        ([(5, None, None)], ((print, (), {}),)),
        ([(5, None, None)], ((print, (), {}, None), (print, (), {}, None))),
        ([(5, None, None), (6, None, None)], ((print, (), {}, None),)),
        ([], (5,)),
    ],
)
def test_a_dump_that_holds_something_else_is_refused(times, calls):
    refused(dump_of(times, *calls))
    refused(dump_of(times, *calls), overdue="return")


def test_a_time_beyond_64_bits_is_refused_and_nothing_is_added():
    calls = [(note, (), {}, None)] * 2
    for far in (2**64 * 10**6, 2**200, -(2**200)):
        timer = ManualTimer()
        with pytest.raises(OverflowError):
            timer.load(dump_of([(NOW * 10**9, None, None), (far, None, None)], *calls), now=NOW)
        assert len(timer) == 0 and timer.stats().added == 0


def test_whatever_is_changed_in_the_bytes_they_are_refused_whole():
    good = full().dump(now=NOW)
    dice = random.Random(7)
    for _ in range(400):
        bad = bytearray(good)
        for _ in range(dice.choice([1, 1, 2, 30])):
            at = dice.randrange(len(bad))
            how = dice.random()
            if how < 0.6:
                bad[at] ^= 1 << dice.randrange(8)
            elif how < 0.8:
                del bad[at : at + dice.randrange(1, 20)]
            else:
                bad[at:at] = dice.randbytes(dice.randrange(1, 20))
        if bad != good:
            refused(bytes(bad))


def test_a_body_that_is_no_pickle_is_refused_also_with_the_right_digest():
    good = full().dump(now=NOW)
    dice = random.Random(8)
    for _ in range(400):
        body = bytearray(good[HEAD.size :])
        # Only cut off, or zeros: a pickle that was changed otherwise may do anything.
        body = body[: dice.randrange(len(body))] + bytes(dice.randrange(3))
        head = HEAD.pack(MAGIC, VERSION, len(body), hashlib.blake2b(body, digest_size=16).digest())
        refused(head + body)


# --- arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, "text", 5, [], object()])
def test_data_that_is_no_bytes_is_a_type_error(data):
    with pytest.raises(TypeError, match="data must be"):
        ManualTimer().load(data)


def test_memoryviews_and_bytearrays_are_bytes():
    data = full().dump(now=NOW)
    for kind in (bytearray, memoryview):
        timer = ManualTimer()
        assert len(timer.load(kind(data), now=NOW).tasks) == 5
        timer.close()


@pytest.mark.parametrize("overdue", ["", "drop", None, True, b"run", []])
def test_overdue_is_one_of_two_words(overdue):
    with pytest.raises(ValueError, match="overdue must be"):
        ManualTimer().load(b"", overdue=overdue)


@pytest.mark.parametrize(
    ("now", "error"),
    [("5", TypeError), (True, TypeError), (float("nan"), ValueError), (float("inf"), ValueError), (1e300, ValueError)],
)
def test_a_bad_now_is_an_error_and_changes_nothing(now, error):
    timer = full()
    for call in (lambda: timer.dump(now=now), lambda: timer.load(b"", now=now)):
        with pytest.raises(error, match="now must be"):
            call()
    with pytest.raises((TypeError, ValueError)):
        timer.dump(timeout="5")
    assert not timer.closed or timer.close()
    timer.close()


def test_max_pending_refuses_all_of_it_or_nothing():
    data = full().dump(now=NOW)
    timer = ManualTimer(max_pending=4)
    with pytest.raises(TimerFull):
        timer.load(data, now=NOW)
    assert len(timer) == 0 and timer.stats().added == 0
    timer = ManualTimer(max_pending=5)
    assert len(timer.load(data, now=NOW).tasks) == 5
    timer.close()


def test_a_closed_timer_takes_no_dump():
    data = full().dump(now=NOW)
    timer = ManualTimer()
    timer.close()
    with pytest.raises(TimerClosed):
        timer.load(data)


def test_by_itself_now_is_the_time_of_day():
    old = ManualTimer()
    old.call_later(3600, note)
    data = old.dump()
    [task] = ManualTimer().load(data).tasks
    assert 3_000_000 < task.delay_ms <= 3_600_000
    [task] = ManualTimer().load(data, now=time.time() + 3600).tasks
    assert -600_000 < task.delay_ms <= 0


def test_the_same_dump_goes_into_a_timer_of_another_tick_and_another_clock(hand_clock):
    data = full().dump(now=NOW)
    timer = SystemTimer(tick_ms=100, clock=hand_clock, reaper=False, executor="inline")
    timer.load(data, now=NOW)
    hand_clock.ms += 4999
    timer.advance_clock(0)
    assert ("later",) not in RAN and ("group",) in RAN
    hand_clock.ms += 101
    timer.advance_clock(0)
    assert ("later",) in RAN
    assert len(timer.dump(now=NOW)) > 50
