"""hwheel.ExpiringDict in one thread: mapping, expiry, on_expire, capacity, clocks."""

import copy
from collections import OrderedDict, UserDict
from collections.abc import MutableMapping
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from hwheel import ExpiringDict, ManualTimer, SystemTimer, TimerClosed
from waiting import eventually


def test_entry_expires_at_its_deadline(timer, make):
    d = make(10)
    d["a"] = 1
    timer.advance(9.999)
    assert d["a"] == 1 and "a" in d and len(d) == 1 and d.expires_in("a") == pytest.approx(0.001)
    timer.advance(0.001)
    assert "a" not in d and len(d) == 0 and d.get("a") is None and d.expires_in("a") is None
    with pytest.raises(KeyError, match="'a'"):
        d["a"]


def test_touch_restarts_or_changes_the_ttl_of_a_key(timer, make):
    d = make(10)
    d.set("a", 1, ttl=60)
    timer.advance(50)
    assert d.touch("a") is True and d.expires_in("a") == 60
    assert d.touch("a", 5) and d.expires_in("a") == 5
    assert d.touch("a") and d.expires_in("a") == 5
    assert d.touch("a", ttl=7) and d.expires_in("a") == 7
    timer.advance(7)
    assert d.touch("a") is False and d.touch("b") is False and len(d) == 0


def test_lookups_restart_the_ttl_only_with_refresh(timer, make):
    for refresh, left in [(False, 4), (True, 10)]:
        for look in [lambda d: d["a"], lambda d: d.get("a"), lambda d: d.setdefault("a", 5)]:
            d = make(10, refresh=refresh)
            d["a"] = 1
            timer.advance(6)
            assert look(d) == 1 and d.expires_in("a") == left
    d = make(10, refresh=True)
    d["a"] = 1
    timer.advance(6)
    assert "a" in d and d.expires_in("a") == 4 and [*d.items()] == [("a", 1)] and d.expires_in("a") == 4


def test_on_expire_gets_expired_pairs_in_order_of_deadline(timer, make):
    calls = []
    d = make(10, on_expire=calls.append)
    for key, ttl in [("c", 3), ("a", 1), ("b", 1), ("d", 3)]:
        d.set(key, key.upper(), ttl=ttl)
    timer.advance(5)
    assert calls == [[("a", "A"), ("b", "B")], [("c", "C"), ("d", "D")]]


def test_expired_entries_are_invisible_before_the_reaper_runs(hand_clock):
    calls = []
    with SystemTimer(clock=hand_clock, reaper=False, executor="inline") as timer:
        d = ExpiringDict(10, timer=timer, on_expire=calls.append)
        d.update(a=1, b=2, c=3, d=4)
        hand_clock.ms += 10_000
        assert "a" not in d and [*d] == [] and [*d.items()] == [] and d.get("a") is None and d == {}
        assert not d.touch("a") and d.expires_in("b") is None
        assert d.pop("a", "gone") == "gone"
        with pytest.raises(KeyError):
            d.popitem()
        with pytest.raises(KeyError):
            del d["b"]
        d["a"] = 5
        assert d.setdefault("b", 6) == 6 and d == {"a": 5, "b": 6}
        timer.advance_clock(0)
        assert sorted(pair for call in calls for pair in call) == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
        assert d == {"a": 5, "b": 6} and len(d) == 2


def test_clear_leaves_expired_entries_to_on_expire(hand_clock):
    calls = []
    with SystemTimer(clock=hand_clock, reaper=False, executor="inline") as timer:
        d = ExpiringDict(10, timer=timer, on_expire=calls.append)
        d["old"] = 1
        hand_clock.ms += 10_000
        d["new"] = 2
        d.clear()
        assert len(d) == 0
        timer.advance_clock(0)
        assert calls == [[("old", 1)]]


def test_on_expire_gets_at_most_2048_pairs_in_a_call(timer, make):
    calls = []
    d = make(10, on_expire=calls.append)
    for i in range(5000):
        d[i] = i
    timer.advance(10)
    assert [pair for call in calls for pair in call] == [(i, i) for i in range(5000)]
    assert max(map(len, calls)) == 2048 and len(calls) == 3


def test_maxsize_evicts_expired_entries_first(hand_clock):
    expired = []
    with SystemTimer(clock=hand_clock, reaper=False, executor="inline") as timer:
        for on_expire in [None, expired.extend]:
            d = ExpiringDict(100, timer=timer, maxsize=3, on_expire=on_expire)
            d["old"] = 1
            d.set("brief", 2, ttl=10)
            d.set("new", 3)
            hand_clock.ms += 10_000
            d["newest"] = 4
            assert [*d] == ["old", "new", "newest"]
        timer.advance_clock(0)
        assert expired == [("brief", 2)]


def test_mapping_in_order_of_the_last_set_or_touch(timer, make):
    d = make(10)
    assert isinstance(d, MutableMapping) and not d
    d.update({"a": 1}, b=2, c=3)
    d["a"] = 4
    assert [*d] == [*d.keys()] == ["b", "c", "a"] and [*d.values()] == [2, 3, 4]
    assert [*d.items()] == [("b", 2), ("c", 3), ("a", 4)]
    assert len(d.keys()) == len(d.items()) == len(d.values()) == 3
    assert ("b", 2) in d.items() and ("b", 3) not in d.items() and 4 in d.values() and 5 not in d.values()
    assert d.keys() & {"a", "z"} == {"a"} and d.keys() == {"a", "b", "c"}
    assert d.popitem() == ("a", 4) and d.pop("z", 7) == 7 and d.setdefault("b", 9) == 2 and d.setdefault("n") is None
    assert (
        d == {"b": 2, "c": 3, "n": None}
        and d != {"b": 2}
        and d != 5
        and repr(d) == ("<ExpiringDict {'b': 2, 'c': 3, 'n': None}>")
    )
    other = make(10)
    other.update(d)
    assert d == other and {**d} == dict(d)
    with pytest.raises(TypeError, match="unhashable"):
        hash(d)
    with pytest.raises(TypeError, match="at most 2"):
        d.pop("a", 1, 2)
    assert (d.ttl, d.maxsize, d.refresh, d.on_expire, d.timer) == (10, None, False, None, timer)


def test_iteration_is_over_a_snapshot(timer, make):
    d = make(10)
    d.update({i: i for i in range(100)})
    seen = []
    for key, value in d.items():
        seen.append(key)
        d.pop(key + 1, None)
        d[1000 + key] = value
        timer.advance(0.1)
    assert seen == [*range(100)]
    for _ in d:
        timer.advance(10)
    assert [*d.values()] == []


def test_setdefault_with_a_ttl(timer, make):
    d = make(10)
    assert d.setdefault("a", 1, ttl=5) == 1 and d.expires_in("a") == 5
    assert d.setdefault("a", 2, ttl=50) == 1 and d.expires_in("a") == 5


@pytest.mark.parametrize("ttl", [1, 1.0, np.float64(1), np.int32(1), Fraction(1), Decimal(1)])
def test_ttl_may_be_any_real_number(timer, make, ttl):
    d = make(ttl)
    d["a"] = 1
    assert d.expires_in("a") == 1 and d.ttl == 1
    d.set("b", 2, ttl=ttl)
    assert d.touch("a", ttl)


BAD = [
    (float("nan"), ValueError, "NaN"),
    (float("inf"), ValueError, "finite"),
    (-1, ValueError, "negative"),
    (-1e-12, ValueError, "ttl must"),
    (0, ValueError, "ttl must be positive, got 0"),
    (0.0, ValueError, "positive"),
    (True, TypeError, "bool"),
    ("10", TypeError, "str"),
    (10**30, OverflowError, "64 bits"),
    (2**63 // 1000, OverflowError, "64 bits"),
    (1e300, OverflowError, "64 bits"),
]


@pytest.mark.parametrize(("ttl", "error", "message"), BAD)
def test_invalid_ttl_is_refused_and_changes_nothing(timer, make, ttl, error, message):
    timer.advance(1)
    d = make(10)
    d.set("a", 1, ttl=5)
    if ttl != 2**63 // 1000:
        with pytest.raises(error, match=message):
            make(ttl)
    for call in [
        lambda: d.set("a", 2, ttl=ttl),
        lambda: d.set("b", 2, ttl=ttl),
        lambda: d.touch("a", ttl),
        lambda: d.setdefault("c", 2, ttl=ttl),
    ]:
        with pytest.raises(error, match=message):
            call()
    assert [*d.items()] == [("a", 1)] and d.expires_in("a") == 5


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"maxsize": 0}, ValueError),
        ({"maxsize": -1}, ValueError),
        ({"maxsize": True}, TypeError),
        ({"maxsize": 1.5}, TypeError),
        ({"maxsize": 2**64}, OverflowError),
        ({"on_expire": 5}, TypeError),
        ({"timer": 5}, TypeError),
        ({"timer": "timer"}, TypeError),
        ({"ttl": None}, TypeError),
    ],
)
def test_invalid_arguments_are_refused(options, error):
    with pytest.raises(error):
        ExpiringDict(**{"ttl": 10, "timer": ManualTimer(), **options})


def test_timer_has_one_task_for_all_entries(timer, make):
    d = make(10)
    assert len(timer) == 0
    for i in range(1000):
        d.set(i, i, ttl=1 + i)
    assert len(timer) == 1
    timer.advance(2000)
    assert len(timer) == 0 and len(d) == 0
    d["a"] = 1
    assert len(timer) == 1
    d.clear()
    assert len(timer) == 0


def test_deleted_dict_leaves_no_task(timer):
    d = ExpiringDict(10, timer=timer)
    d["a"] = 1
    assert len(timer) == 1
    del d
    assert len(timer) == 0


def test_cancelled_task_of_the_dict_is_replaced(timer, make):
    d = make(10)
    d["a"] = 1
    timer.pending()[0].cancel()
    d["b"] = 2
    timer.advance(10)
    assert len(d) == 0


def test_closed_timer_refuses_set_and_touch(hand_clock):
    timer = SystemTimer(clock="monotonic", reaper=False)
    d = ExpiringDict(3600, timer=timer)
    d["a"] = 1
    assert len(timer.close()) == 1
    with pytest.raises(TimerClosed):
        d["b"] = 2
    with pytest.raises(TimerClosed):
        d.touch("a")
    assert d["a"] == 1 and d.pop("a") == 1
    with pytest.raises(TimerClosed):
        ExpiringDict(10, timer=timer)


def test_close_with_run_pending_expires_nothing_early(timer):
    calls = []
    d = ExpiringDict(10, timer=timer, on_expire=calls.append)
    d["a"] = 1
    timer.close(run_pending=True)
    assert calls == [] and d["a"] == 1


@pytest.mark.parametrize("tick_ms", [1, 10, 1000])
@pytest.mark.parametrize("never_early", [True, False])
def test_expiry_is_within_a_tick_of_the_timer(tick_ms, never_early):
    timer = ManualTimer(tick_ms=tick_ms, never_early=never_early, start_ms=7)
    calls = []
    d = ExpiringDict(1.5, timer=timer, on_expire=lambda pairs: calls.append(timer.time()))
    d["a"] = 1
    timer.advance(4)
    assert len(d) == 0
    early = 0 if never_early else tick_ms
    assert 1.507 - early / 1000 <= calls[0] <= 1.507 + tick_ms / 1000


@pytest.mark.parametrize("put", [lambda d: d.set("b", 2, ttl=7200), lambda d: d.touch("b"), lambda d: d["b"]])
def test_set_and_touch_notice_a_clock_set_forward(hand_clock, put):
    calls = []
    with SystemTimer(clock=hand_clock, executor="inline") as timer:
        d = ExpiringDict(3600, timer=timer, on_expire=calls.append, refresh=True)
        d["a"] = 1
        d.set("b", 2, ttl=7200)
        hand_clock.ms += 3_600_000
        put(d)
        eventually(lambda: calls == [[("a", 1)]])


def test_error_in_on_expire_is_reported_by_the_timer_and_loses_nothing(timer, make):
    calls = []

    def failing(pairs):
        calls.append(pairs)
        raise ArithmeticError

    d = make(10, on_expire=failing)
    d.update({i: i for i in range(5000)})
    for _ in range(3):
        with pytest.raises(ArithmeticError):
            timer.advance(10)
    assert [pair[0] for call in calls for pair in call] == [*range(5000)]
    assert len(d) == 0 and len(timer) == 0
    reported = []
    other = ManualTimer(on_error=lambda task, error: reported.append(error))
    d = make(10, on_expire=failing, timer=other)
    d["a"] = 1
    other.advance(11)
    assert [type(error) for error in reported] == [ArithmeticError]


def test_on_expire_may_use_its_dict(timer, make):
    calls = []

    def again(pairs):
        calls.append(pairs)
        assert "a" not in d
        if len(calls) < 3:
            d["a"] = len(calls)
            d.touch("b")

    d = make(10, on_expire=again)
    d.update(a=0)
    d.set("b", 1, ttl=15)
    timer.advance(20)
    assert calls == [[("a", 0)], [("a", 1)]]
    timer.advance(100)
    assert calls[2:] == [[("a", 2)], [("b", 1)]]
    assert len(d) == 0


def test_default_timer_is_shared(eventually):
    calls = []
    d = ExpiringDict(0.02, on_expire=calls.extend)
    e = ExpiringDict(5)
    d["a"] = 1
    assert d.timer is e.timer and d.timer.name == "expiring"
    eventually(lambda: calls == [("a", 1)])
    assert len(d) == 0


def test_subclass_may_have_attributes_and_refuses_a_second_init(timer):
    class Sessions(ExpiringDict):
        def __init__(self, **options):
            super().__init__(10, **options)
            self.made = 0

        def __setitem__(self, key, value):
            self.made += 1
            super().__setitem__(key, value)

    d = Sessions(timer=timer)
    d.update(a=1, b=2)
    assert d.made == 2 and dict(d) == {"a": 1, "b": 2}
    with pytest.raises(ValueError, match="already"):
        d.__init__(timer=timer)
    assert dict(d) == {"a": 1, "b": 2}


def test_methods_without_init_raise():
    d = ExpiringDict.__new__(ExpiringDict)
    for call in [lambda: d["a"], lambda: len(d), lambda: d.touch("a"), lambda: [*d], lambda: d.timer, d.clear]:
        with pytest.raises(RuntimeError, match="has not been set up"):
            call()


def test_entry_in_a_coarse_bucket_that_has_begun(hand_clock):
    """The reaper is late: expired entries precede the tick of the new entry."""
    with SystemTimer(clock=hand_clock, reaper=False, executor="inline") as timer:
        d = ExpiringDict(10, timer=timer)
        for ttl_ms in range(1, 300, 7):
            d.set(ttl_ms, 1, ttl=ttl_ms / 1000)
            hand_clock.ms += 40
            d.set(-ttl_ms, 1, ttl=0.1)
            d.set("far", 1, ttl=100 + ttl_ms)
        hand_clock.ms += 1000
        timer.advance_clock(0)
        assert d.keys() == {"far"}


def test_copy_keeps_deadlines_and_ttls():
    timer = ManualTimer()
    original = ExpiringDict(30, maxsize=9, refresh=False, timer=timer)
    original["default"] = 1
    original.set("short", 2, ttl=10)
    timer.advance(4)
    for copied in (original.copy(), copy.copy(original)):
        assert type(copied) is ExpiringDict and copied == original and list(copied) == list(original)
        assert (copied.ttl, copied.maxsize, copied.timer) == (30.0, 9, timer)
        assert (copied.expires_in("short"), copied.expires_in("default")) == (6.0, 26.0)
        assert copied.touch("short") and copied.expires_in("short") == 10.0
        assert original.expires_in("short") == 6.0


def test_copies_on_a_real_clock_keep_the_deadline(hand_clock):
    with SystemTimer(reaper=False, clock=hand_clock) as timer:
        hand_clock.ms += 0.5
        original = ExpiringDict(30, timer=timer)
        original.set("a", 1, ttl=10)
        copied = original
        for _ in range(20):
            copied = {"b": 2} | copied.copy()
        assert copied.expires_in("a") == original.expires_in("a")
        assert copied.touch("a") and copied.expires_in("a") == original.expires_in("a")


def test_copy_omits_an_entry_that_expires_during_the_copy():
    timer = ManualTimer()

    class Slow:
        def __hash__(self):
            timer.advance(5)
            return 1

    original = ExpiringDict(30, timer=timer)
    original[Slow()] = 1
    original.set("a", 1, ttl=1)
    assert len(original.copy()) == 1


def test_update_from_a_dict_whose_entries_expire_during_the_update():
    timer = ManualTimer()

    class Slow:
        def __hash__(self):
            timer.advance(5)
            return 1

    other = ExpiringDict(30, refresh=True, timer=timer)
    other[Slow()] = 1
    other.set("a", 2, ttl=1)
    other.set("b", 3, ttl=20)
    union = ExpiringDict(100, timer=timer) | other
    assert list(union.values()) == [1, 2, 3] and other.expires_in("b") == 15.0


def test_union_with_a_mapping():
    timer = ManualTimer()
    left = ExpiringDict(30, timer=timer)
    left.set("a", 1, ttl=10)
    left["b"] = 1
    union = left | {"b": 2, "c": 3}
    assert type(union) is ExpiringDict and dict(union) == {"a": 1, "b": 2, "c": 3}
    assert (union.expires_in("a"), union.expires_in("c")) == (10.0, 30.0)
    assert dict(left) == {"a": 1, "b": 1}
    reflected = {"a": 0, "z": 9} | left
    assert type(reflected) is ExpiringDict and dict(reflected) == {"a": 1, "z": 9, "b": 1}
    assert reflected.expires_in("a") == 10.0
    left |= [("b", 5)]
    assert dict(left) == {"a": 1, "b": 5}
    with pytest.raises(TypeError):
        left | [("b", 5)]
    assert left != None and (left == 3) is False  # noqa: E711


def test_ttl_of_is_the_time_to_live_that_was_set(timer, make):
    d = make(30)
    d["a"] = 1
    d.set("b", 2, ttl=10)
    timer.advance(9)
    d.touch("a", 7)
    assert (d.ttl_of("a"), d.ttl_of("b"), d.ttl_of("nothing")) == (7.0, 10.0, None)
    timer.advance(1)
    assert d.ttl_of("b") is None


def test_the_argument_order_of_cachetools_is_refused_with_a_hint():
    with pytest.raises(TypeError, match=r"cachetools.*ExpiringDict\(30, maxsize=1000\)"):
        ExpiringDict(1000, 30)


def test_a_dict_that_contains_itself_has_a_repr(make):
    entries = make(10)
    entries["a"] = entries
    assert repr(entries) == "<ExpiringDict {'a': ...}>"
    del entries["a"]


@pytest.mark.parametrize("kind", [dict, OrderedDict, UserDict])
def test_equality_with_any_mapping(make, kind):
    entries = make(10)
    entries["a"], entries["b"] = 1, float("nan")
    twin = kind(entries.items())
    assert entries == twin and twin == entries
    del twin["a"]
    assert entries != twin and twin != entries
    twin["c"] = 1
    assert entries != twin and twin != entries
