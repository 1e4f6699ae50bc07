"""Malformed dumps and the arguments of dump() and load()."""

import hashlib
import pickle
import random
import time

import pytest

import dumps
from dumps import NOW, RAN, full_timer, note
from hwheel import DumpError, ManualTimer, SystemTimer, TimerFull
from hwheel.timers.dump import HEAD, MAGIC, VERSION

# --- malformed dumps --------------------------------------------------------------------------------------------------


def dump_of(times, *calls):
    deadlines, extras = [due for due, *_ in times], {index: extra for index, (_, *extra) in enumerate(times)}
    others = [part for callback, args, kwargs, random in calls for part in (callback, kwargs, random, *args)]
    counts = [~len(args) for _, args, _, _ in calls]
    body = b"".join(map(pickle.dumps, (len(times), (deadlines, extras, counts, []), others)))
    return HEAD.pack(MAGIC, VERSION, len(body), hashlib.blake2b(body, digest_size=16).digest()) + body


def check_refused(data, message=None, **options):
    timer = ManualTimer()
    timer.call_later(1, note)
    before = timer.stats()
    with pytest.raises(DumpError, match=message):
        timer.load(data, **options)
    assert timer.stats() == before and len(timer) == 1
    timer.close()


def test_error_says_why_the_bytes_are_not_a_dump():
    good = full_timer().dump(now=NOW)
    check_refused(b"", "not a dump")
    check_refused(b"something else entirely, but long enough to be one", "not a dump")
    check_refused(good[:-1], "incomplete")
    check_refused(good + b"x", "incomplete")
    check_refused(good[: HEAD.size], "incomplete")
    check_refused(good[:-1] + bytes([good[-1] ^ 1]), "changed")
    check_refused(good.replace(MAGIC, b"hwheelE\n"), "not a dump")
    check_refused(good[: len(MAGIC)] + b"\x00\x07" + good[len(MAGIC) + 2 :], "version 7")
    check_refused(pickle.dumps([]), "not a dump")


def test_error_names_the_task_whose_function_is_missing(monkeypatch):
    old = ManualTimer()
    old.call_later(1, print)
    old.call_later(2, note)
    data = old.dump(now=NOW)
    monkeypatch.delattr(dumps, "note")
    timer = ManualTimer()
    with pytest.raises(DumpError, match="one of the tasks 1 to 2 cannot be read: AttributeError.*note"):
        timer.load(data)
    assert len(timer) == 0


def test_time_beyond_64_bits_is_refused():
    calls = [(note, (), {}, None)] * 2
    for far in (2**64 * 10**6, 2**200, -(2**200)):
        timer = ManualTimer()
        with pytest.raises(OverflowError):
            timer.load(dump_of([(NOW * 10**9, None, None), (far, None, None)], *calls), now=NOW)
        assert len(timer) == 0 and timer.stats().added == 0


def test_any_changed_byte_is_refused():
    good = full_timer().dump(now=NOW)
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
            check_refused(bytes(bad))


# --- arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, "text", 5, [], object()])
def test_data_must_be_bytes_like(data):
    with pytest.raises(TypeError, match="data must be"):
        ManualTimer().load(data)


def test_memoryview_and_bytearray_are_accepted():
    data = full_timer().dump(now=NOW)
    for kind in (bytearray, memoryview):
        timer = ManualTimer()
        assert len(timer.load(kind(data), now=NOW).tasks) == 5
        timer.close()


@pytest.mark.parametrize("overdue", ["", "drop", None, True, b"run", []])
def test_overdue_must_be_run_or_return(overdue):
    with pytest.raises(ValueError, match="overdue must be"):
        ManualTimer().load(b"", overdue=overdue)


@pytest.mark.parametrize(
    ("now", "error"),
    [("5", TypeError), (True, TypeError), (float("nan"), ValueError), (float("inf"), ValueError), (1e300, ValueError)],
)
def test_bad_now_changes_nothing(now, error):
    timer = full_timer()
    for call in (lambda: timer.dump(now=now), lambda: timer.load(b"", now=now)):
        with pytest.raises(error, match="now must be"):
            call()
    with pytest.raises(TypeError):
        timer.dump(timeout="5")
    assert not timer.closed
    timer.close()


def test_max_pending_refuses_the_whole_dump():
    data = full_timer().dump(now=NOW)
    timer = ManualTimer(max_pending=4)
    with pytest.raises(TimerFull):
        timer.load(data, now=NOW)
    assert len(timer) == 0 and timer.stats().added == 0
    timer = ManualTimer(max_pending=5)
    assert len(timer.load(data, now=NOW).tasks) == 5
    timer.close()


def test_now_defaults_to_the_time_of_day():
    old = ManualTimer()
    old.call_later(3600, note)
    data = old.dump()
    [task] = ManualTimer().load(data).tasks
    assert 3_000_000 < task.delay_ms <= 3_600_000
    [task] = ManualTimer().load(data, now=time.time() + 3600).tasks
    assert -600_000 < task.delay_ms <= 0


def test_load_into_a_timer_with_another_tick_and_clock(hand_clock):
    data = full_timer().dump(now=NOW)
    timer = SystemTimer(tick_ms=100, clock=hand_clock, reaper=False, executor="inline")
    timer.load(data, now=NOW)
    hand_clock.ms += 4999
    timer.advance_clock(0)
    assert ("later",) not in RAN and ("group",) in RAN
    hand_clock.ms += 101
    timer.advance_clock(0)
    assert ("later",) in RAN
    assert len(timer.dump(now=NOW)) > 50
