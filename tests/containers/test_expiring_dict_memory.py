"""Memory of an ExpiringDict: release at expiry, cycles, cost for the garbage collector."""

import gc
import time
import tracemalloc
import weakref

import pytest

from hwheel import ExpiringDict, ManualTimer


class Thing:
    pass


@pytest.mark.parametrize("on_expire", [None, lambda pairs: None])
def test_expired_key_and_value_are_released_without_a_lookup(timer, make, on_expire):
    d = make(10, on_expire=on_expire)
    key, value = Thing(), Thing()
    ends = [weakref.ref(key), weakref.ref(value)]
    d[key] = value
    del key, value
    timer.advance(9.999)
    assert [end() is None for end in ends] == [False, False]
    timer.advance(0.001)
    assert [end() is None for end in ends] == [True, True]


def test_emptied_dict_keeps_only_the_memory_of_its_wheel(timer, make):
    d = make(10)
    tracemalloc.start()
    try:
        d[0] = 0
        timer.advance(60)
        before = tracemalloc.get_traced_memory()[0]
        for i in range(50_000):
            d[float(i)] = float(i)
        full = tracemalloc.get_traced_memory()[0]
        timer.advance(60)
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert full - before > 100 * 50_000
    assert after - before < 30_000  # one more level of the wheel


def test_entry_takes_at_most_112_bytes(timer, make):
    d = make(10)
    keys = [float(i) for i in range(100_000)]
    d[0.5] = None
    tracemalloc.start()
    try:
        for key in keys:
            d[key] = None
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken / len(keys) < 112


def test_deleted_dict_is_freed_at_once_with_its_entries(timer):
    d = ExpiringDict(10, timer=timer, on_expire=print)
    value = Thing()
    ends = [weakref.ref(value), weakref.ref(d)]
    d["a"] = value
    gc.disable()
    try:
        del value, d
        assert [end() is None for end in ends] == [True, True]
    finally:
        gc.enable()


def test_cycle_through_on_expire_is_collected(timer):
    class Cache:
        def __init__(self):
            self.entries = ExpiringDict(10, timer=timer, on_expire=self.expired)
            self.entries["a"] = 1

        def expired(self, pairs):
            pass

    class Own(ExpiringDict):
        def __init__(self):
            super().__init__(10, timer=timer, on_expire=self.expired)
            self["a"] = 1

        def expired(self, pairs):
            pass

    for make_one in [Cache, Own]:
        end = weakref.ref(make_one())
        assert end() is not None
        gc.collect()
        assert end() is None and len(timer) == 0


def test_cycle_through_the_timer_is_collected():
    class Own(ManualTimer):
        pass

    timer = Own()
    timer.entries = ExpiringDict(10, timer=timer)
    end = weakref.ref(timer)
    timer.entries["a"] = 1
    del timer
    gc.collect()
    alarm_is_pending = end() is not None
    if alarm_is_pending:  # the documented limit of a ManualTimer that is reachable from its tasks only
        end().advance(10)
    gc.collect()
    assert end() is None


def test_cycle_through_an_entry_ends_at_its_expiry(timer):
    d = ExpiringDict(10, timer=timer)
    thing = Thing()
    thing.cache = d
    d["a"] = thing
    end = weakref.ref(thing)
    del d, thing
    gc.collect()
    assert end() is not None  # the collector does not see entries
    timer.advance(10)
    assert end() is None and len(timer) == 0


def test_entries_are_invisible_to_the_collector(timer, make):
    d = make(10)
    gc.collect()
    before = len(gc.get_objects())
    for i in range(20_000):
        d[i] = None
    assert len(gc.get_objects()) - before < 100


def test_long_chain_of_dicts_is_freed_without_deep_recursion(timer):
    d = None
    for _ in range(100_000):
        outer = ExpiringDict(10, timer=timer)
        if d is not None:
            outer["inner"] = d
        d = outer
        if _ % 1000 == 0:
            timer.time()
    del d, outer
    assert len(timer) == 0


def test_other_threads_run_while_many_entries_expire(make_timer):
    d = ExpiringDict(0.3, timer=make_timer())
    count = 300_000
    for i in range(count):
        d[i] = None
    lookups = 0
    give_up = time.monotonic() + 60
    while len(d) and time.monotonic() < give_up:
        lookups += len(d) < count
    assert len(d) == 0 and lookups > 20
