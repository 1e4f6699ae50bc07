"""dump() and load() in virtual time: restored tasks, overdue tasks, and tasks that cannot be dumped."""

import functools
import gc
import random
from array import array
from contextvars import copy_context
from types import SimpleNamespace

import pytest

from dumps import NOW, RAN, full_timer, note
from hwheel import DumpError, ExpiringDict, ManualTimer, TimerClosed, TimerFull, TimerTask
from hwheel.timers.dump import CHUNK, _records
from hwheel.types import Loaded

DUMPED_INSIDE = [None]


def dump_inside():
    DUMPED_INSIDE[0] = DUMPED_INSIDE[0].dump(now=NOW)


class Session:
    """An object shared by several timers."""

    def __init__(self, name):
        self.name, self.noted = name, []

    def note(self):
        self.noted.append(self.name)
        RAN.append(self)


def reload(timer, seconds=0.0, **options):
    """Load a dump of the timer after some seconds. Return the new timer and the result."""
    new = ManualTimer()
    return new, new.load(timer.dump(now=NOW), now=NOW + seconds, **options)


def test_pending_tasks_run_in_the_other_timer_on_time_and_in_order():
    old = full_timer()
    old.advance(1)
    new, loaded = reload(old, 0.5)
    assert (old.closed, len(old), len(new), loaded.overdue) == (True, 0, 5, [])
    assert [task.delay_ms for task in loaded.tasks] == [500, 1500, 2500, 3500, 5500]
    assert loaded.tasks[1].kwargs == {"key": "word"} and loaded.tasks[1].args == ("task",)
    for seconds, ran in [(0.499, 0), (0.001, 1), (1, 2), (1, 4), (1, 5), (2, 7)]:
        new.advance(seconds)
        assert len(RAN) == ran, RAN
    expected = [("every",), (("task",), {"key": "word"}), ("group",), ("every",), ("later",), ("every",), ("at", 1, 2)]
    assert RAN[:2] == expected[:2] and sorted(map(str, RAN)) == sorted(map(str, expected))
    assert len(new) == 1 and loaded.tasks[0].cancel() and len(new) == 0


def test_slack_max_lateness_and_jitter_are_restored():
    old = ManualTimer()
    old.call_later(0.005, note, "postponed", slack=0.01)
    old.group().call_later(0.006, note, "missed", max_lateness=0.5)
    old.call_every(10, note, "every", jitter=0.5, random=random.Random(3), slack=0.25, max_lateness=60)
    old.call_every(10, note, "system", jitter=0.5)
    new, loaded = reload(old, 1)
    missed, put_off, *every = loaded.tasks
    new.advance(0)
    assert RAN == [("postponed",)] and missed.missed and new.stats().missed == 1
    assert all(9000 <= task.delay_ms <= 9750 for task in every)
    new.advance(20)
    assert RAN.count(("every",)) == RAN.count(("system",)) == 2
    # The random numbers continue where the old timer stopped, after one draw.
    dice = random.Random(3)
    drawn = [dice.random() for _ in range(3)]
    deadline_ms = next(task.deadline_ms for task in new.pending() if task.args == ("every",))
    assert deadline_ms - 29_000 >= drawn[2] * 500 and (deadline_ms - 29_000) - drawn[2] * 500 <= 251
    new.close()


def test_dump_closes_the_timer():
    timer = full_timer()
    timer.dump(now=NOW)
    stats = timer.stats()
    assert stats.added == 5 and stats.pending == stats.expired == stats.cancelled == 0
    assert timer.close() == []
    with pytest.raises(TimerClosed):
        timer.call_later(1, note)
    with pytest.raises(TimerClosed):
        timer.dump()


def test_dump_of_an_empty_timer():
    new, loaded = reload(ManualTimer())
    assert loaded == Loaded([], []) and len(new) == 0


def test_tasks_of_one_tick_keep_their_order():
    old = ManualTimer()
    for number in range(50):
        old.call_later(1 if number % 3 else 1.0004, note, number)
    reload(old)[0].advance(2)
    first = [number for number in range(50) if number % 3]
    assert RAN == [(number,) for number in [*first, *range(0, 50, 3)]]


def test_shared_objects_stay_shared():
    old, session, alone = ManualTimer(), Session("a"), Session("b")
    old.call_later(1, session.note)
    old.call_later(2, session.note)
    old.call_every(3, alone.note)
    new, _ = reload(old)
    new.advance(5)
    assert [one.name for one in RAN] == ["a", "a", "b"] and RAN[0] is RAN[1] is not session
    assert RAN[0].noted == ["a", "a"] and session.noted == []


def test_objects_are_shared_across_chunks_and_with_plain_calls_in_between():
    old, session = ManualTimer(), Session("a")
    for number in range(3 * CHUNK):
        old.call_later(1, session.note) if number % 400 == 0 else old.call_later(1, note, number, "text")
    new, loaded = reload(old)
    assert [task.args for task in loaded.tasks] == [
        () if number % 400 == 0 else (number, "text") for number in range(3 * CHUNK)
    ]
    new.advance(1)
    assert len(RAN) == 3 * CHUNK and len({id(RAN[number]) for number in range(0, 3 * CHUNK, 400)}) == 1


@pytest.mark.parametrize("where", [0, CHUNK, 2 * CHUNK + 7])
def test_error_in_a_later_chunk_names_the_task(where):
    timer = ManualTimer()
    tasks = [timer.call_later(9, note, number) for number in range(2 * CHUNK + 8)]
    tasks[where].cancel()
    bad = timer.call_later(5, lambda: None)
    with pytest.raises(DumpError, match="lambda") as caught:
        timer.dump()
    assert repr(bad) in str(caught.value) and len(timer) == len(tasks)
    bad.cancel()
    assert len(ManualTimer().load(timer.dump()).tasks) == len(tasks) - 1


def test_the_collector_sees_tasks_after_a_dump_or_a_load_that_failed():
    def is_seen(tasks):
        return all(gc.is_tracked(task) and gc.is_tracked(task.callback) for task in tasks)

    timer, limited = ManualTimer(), LimitedPickles(1)
    tasks = [timer.call_later(5, Session(str(number)).note, limited if number == 2 else 7) for number in range(5)]
    with pytest.raises(DumpError, match="has changed"):
        timer.dump()
    assert is_seen(tasks) and is_seen(timer.close())
    old = ManualTimer()
    kept = [old.call_later(5, Session(str(number)).note) for number in range(5)]
    data = old.dump()
    assert is_seen(kept)
    new, loaded = ManualTimer(max_pending=3), []
    with pytest.raises(TimerFull):
        new._add_records(_records(data, None, 0), loaded)
    assert len(loaded) == 5 and is_seen(loaded)


def test_task_without_callback_and_partial_are_restored():
    old = ManualTimer()
    old.add(TimerTask(1000))
    old.call_later(1, functools.partial(note, key=1), 2)
    new, loaded = reload(old)
    assert loaded.tasks[0].callback is None
    new.advance(1)
    assert RAN == [((2,), {"key": 1})]


# --- overdue tasks -------------------------------------------------------------------------------------------------


def test_overdue_return_returns_tasks_without_adding_them():
    old = ManualTimer()
    for delay in (30, 10, 60, 60.0005):
        old.call_later(delay, note, delay)
    new, loaded = reload(old, 60, overdue="return")
    assert [task.delay_ms for task in loaded.overdue] == [-50_000, -30_000, 0]
    assert [task.delay_ms for task in loaded.tasks] == [1] and len(new) == 1
    assert not any(task.pending or task.expired or task.cancelled for task in loaded.overdue)
    loaded.overdue[0].run()
    assert RAN == [(10,)]
    assert new.add(loaded.overdue[1]).pending
    new.advance(1)
    assert RAN == [(10,), (30,), (60.0005,)]


def test_system_clock_set_back_delays_tasks():
    old = ManualTimer()
    old.call_later(10, note, 1)
    new, loaded = reload(old, -3600)
    assert loaded.tasks[0].delay_ms == 3_610_000


@pytest.mark.parametrize(
    ("missed", "expected"), [("skip", [100, 105, 110]), ("burst", [100] * 18 + [105, 110]), ("delay", [100, 110])]
)
def test_overdue_periodic_task_runs_at_once_then_by_missed_ticks(missed, expected):
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
    assert times[: len(expected)] == expected if missed != "delay" else times == [100, 105, 110]
    task.cancel()


@pytest.mark.parametrize("missed", ["skip", "burst", "delay"])
def test_overdue_return_continues_periodic_tasks_on_their_grid(missed):
    old = ManualTimer()
    old.call_every(5, note, missed_ticks=missed)
    old.advance(13)
    new = ManualTimer(start_ms=101_000)
    [task] = new.load(old.dump(now=NOW + 13), now=NOW + 101, overdue="return").tasks
    assert task.deadline_ms == 105_000
    RAN.clear()
    new.advance(9)
    assert len(RAN) == 2 and task.cancel()


def test_overdue_return_skips_a_run_that_is_due_now():
    old = ManualTimer()
    old.call_every(5, note)
    new = ManualTimer()
    [task] = new.load(old.dump(now=NOW), now=NOW + 5, overdue="return").tasks
    assert task.deadline_ms == 5000 and task.cancel()


def test_closed_timer_refuses_even_an_empty_load():
    old, new = ManualTimer(), ManualTimer()
    old.call_later(5, note)
    data = old.dump(now=NOW)
    new.close()
    for dump in (data, ManualTimer().dump()):
        with pytest.raises(TimerClosed):
            new.load(dump, now=NOW + 10, overdue="return")


def test_now_is_read_together_with_the_timers_clock(monkeypatch):
    # A callback may run for long while dump() begins; pending tasks must not become early by that time.
    times = iter([NOW * 10**9, (NOW + 7) * 10**9])
    monkeypatch.setattr("hwheel.timers.dump.time", SimpleNamespace(time_ns=lambda: next(times)))
    old, new = ManualTimer(), ManualTimer()
    old.call_later(10, note)
    [task] = new.load(old.dump(), now=NOW + 7).tasks
    assert task.deadline_ms == 10_000 and task.cancel()


def test_grid_and_rescheduled_run_of_call_every_are_restored():
    old = ManualTimer()
    old.call_every(10, note).reschedule(3)
    new = ManualTimer()
    [task] = new.load(old.dump(now=NOW), now=NOW + 1).tasks
    assert task.deadline_ms == 2000
    new.advance(2)
    assert len(RAN) == 1 and task.deadline_ms == 19_000  # 20 s after the start, on the old grid
    task.cancel()


def test_periodic_task_that_calls_dump_is_dumped_with_its_next_run():
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


# --- tasks that cannot be dumped --------------------------------------------------------------------------------------


class Own(TimerTask):
    def run(self):
        pass


def with_an_expiring_dict(timer):
    made = ExpiringDict(50, timer=timer)
    made["a"] = 1
    timer.kept = made  # keeps it alive
    return timer.pending()[-1]


def generator():
    yield


CASES = [
    ("a lambda", lambda timer: timer.call_later(50, lambda: None), "pickle"),
    ("a generator", lambda timer: timer.call_later(50, note, generator()), "generator"),
    ("a context", lambda timer: timer.call_later(50, note, context=copy_context()), "Context"),
    ("a subclass", lambda timer: timer.add(Own(50_000)), "Own"),
    ("a batch", lambda timer: timer.call_many(array("q", [50_000]), note), "batch of call_many"),
    ("an ExpiringDict", with_an_expiring_dict, "ContainerAlarm"),
    ("call_every", lambda timer: timer.call_every(50, note, generator()), "generator"),
]


@pytest.mark.parametrize(("name", "add", "message"), CASES, ids=[name for name, _, _ in CASES])
def test_error_names_the_task_that_cannot_be_dumped_and_nothing_changes(name, add, message):
    timer = full_timer()
    bad = add(timer)
    before, tasks = timer.stats(), timer.pending()
    for _ in range(2):
        with pytest.raises(DumpError, match=message) as caught:
            timer.dump(now=NOW)
        if name not in ("a batch",):
            assert repr(bad).partition(" ")[0] in str(caught.value)
    assert timer.stats() == before and timer.pending() == tasks and not timer.closed
    timer.advance(5)
    assert len(RAN) == 5
    if bad is not None:
        bad.cancel()
    assert len(ManualTimer().load(timer.dump(now=NOW), now=NOW).tasks) == 2


def test_task_added_during_dump_is_dumped():
    class Adds:
        def __reduce__(self):
            if not timer.closed and len(timer) < 5:
                timer.call_later(9, note, "added")
            return str, ()

    timer = ManualTimer()
    timer.call_later(1, note, Adds())
    timer.call_later(2, note, Adds())
    loaded = ManualTimer().load(timer.dump(now=NOW), now=NOW)
    assert [task.args for task in loaded.tasks] == [("",), ("",), ("added",), ("added",)]


def test_dump_fails_if_a_later_task_shares_the_object_that_failed():
    class Cancels:
        def __reduce__(self):
            first.cancel()
            raise RuntimeError("not at all")

    timer, shared = ManualTimer(), [Cancels()]
    first, second = timer.call_later(1, note, shared), timer.call_later(2, note, shared)
    with pytest.raises(DumpError, match="not at all"):
        timer.dump()
    assert not timer.closed and timer.pending() == [second]


def test_endless_adds_during_dump_are_an_error():
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


class LimitedPickles:
    """An object that can be pickled a limited number of times."""

    def __init__(self, times):
        self.times = times

    def __reduce__(self):
        self.times -= 1
        if self.times < 0:
            raise RuntimeError("not any more")
        return str, ()


def test_failure_after_the_close_loses_no_task():
    for end in ("dump", "close"):
        timer, limited = full_timer(), LimitedPickles(1)
        timer.call_later(50, note, limited)
        with pytest.raises(DumpError, match="has changed"):
            timer.dump(now=NOW)
        assert timer.closed
        if end == "close":
            assert len(timer.close()) == 6
        else:
            limited.times = 1
            assert len(ManualTimer().load(timer.dump(now=NOW), now=NOW).tasks) == 6
        assert timer.close() == []


def test_interrupt_during_dump_loses_no_task():
    class Interrupts(LimitedPickles):
        def __reduce__(self):
            try:
                return super().__reduce__()
            except RuntimeError:
                raise KeyboardInterrupt from None

    timer = full_timer()
    timer.call_later(50, note, Interrupts(0))
    with pytest.raises(KeyboardInterrupt):
        timer.dump()
    assert not timer.closed and len(timer) == 6
    timer.pending()[-1].args[0].times = 1
    with pytest.raises(KeyboardInterrupt):
        timer.dump()
    assert timer.closed and len(timer.close()) == 6
