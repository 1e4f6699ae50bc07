"""How TTLCache and TLRUCache go beyond cachetools: release of memory at the deadline, threads, forks, misuse."""

import contextlib
import copy
import gc
import math
import time
import weakref
from collections import OrderedDict, UserDict
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta

import pytest

from containers import HookedKey
from hwheel import ManualTimer, SystemTimer
from hwheel.cachetools import TLRUCache, TTLCache
from invariants import check_invariants
from threads import call_in_thread, run_concurrently


class Thing:
    pass


# --- expiry --------------------------------------------------------------------------------------------------------


def test_expired_key_and_value_are_released_at_the_deadline(timer, make):
    cache = make()
    key, value = Thing(), Thing()
    ends = [weakref.ref(key), weakref.ref(value)]
    cache[key] = value
    del key, value
    timer.advance(9.999)
    assert [end() is None for end in ends] == [False, False]
    timer.advance(0.001)
    assert [end() is None for end in ends] == [True, True]


@pytest.mark.parametrize("seconds", [0.1, 0.29, 0.7, 1e-4, 1 / 3, 12345.678])
def test_a_deadline_that_is_not_a_whole_number_of_milliseconds(timer, make, seconds):
    timer.advance(0.1)
    cache = make(seconds=seconds)
    cache["a"] = Thing()
    end = weakref.ref(cache["a"])
    timer.advance(math.floor(seconds * 1000) / 1000)
    timer.advance(0.002)
    assert end() is None and "a" not in cache


def test_the_default_timer_releases_values_at_the_deadline(eventually):
    for cache in (TTLCache(9, 0.05), TLRUCache(9, lambda key, value, now: now + 0.05)):
        value = Thing()
        end = weakref.ref(value)
        cache["a"] = value
        del value
        eventually(lambda end=end: end() is None)
        assert cache.timer() == pytest.approx(time.monotonic(), abs=60)


def test_with_a_user_defined_timer_expired_entries_leave_at_the_next_operation(make):
    now = [0]
    cache = make(timer=lambda: now[0])
    cache["a"] = Thing()
    end = weakref.ref(cache["a"])
    now[0] = 10
    assert "a" not in cache and end() is not None
    cache["b"] = 1
    assert end() is None


def test_a_with_block_freezes_the_time_for_one_thread_and_cache(timer, make):
    cache = make()
    cache["a"] = Thing()
    end = weakref.ref(cache["a"])
    with cache.timer as begin, cache.timer as again:
        timer.advance(10)
        assert begin == again == cache.timer() == 0
        assert "a" in cache and len(cache) == 1
        assert call_in_thread(lambda: ("a" in cache, cache.timer())) == (False, 10)
        assert end() is not None
    assert end() is None and cache.timer() == 10


def test_expire_of_a_subclass_receives_the_pairs_at_the_deadline(timer, make):
    found = []

    class Reporting(make.base):
        def expire(self, time=None):
            found.append(super().expire(time))
            return found[-1]

    cache = make(cls=Reporting)
    cache["a"] = 1
    cache["b"] = 2
    found.clear()
    timer.advance(10)
    assert [pairs for pairs in found if pairs] == [[("a", 1), ("b", 2)]]


@pytest.mark.parametrize("fails", [False, True])
def test_expire_of_a_subclass_that_removes_nothing_does_not_run_forever(make, fails):
    errors, careless = [], []

    class Careless(make.base):
        def expire(self, time=None):
            return 1 / len(careless) if fails else careless

    timer = ManualTimer(on_error=lambda source, error: errors.append(type(error)))
    cache = make(cls=Careless, timer=timer.time)
    careless.append(1)
    cache["a"] = 1
    careless.clear()
    timer.advance(10)
    careless.append(1)
    assert [*cache] == [] and {*errors} == ({ZeroDivisionError} if fails else set())


def test_expire_until_a_time_in_the_future(timer, make):
    cache = make(seconds=5)
    cache["a"] = 1
    timer.advance(1)
    cache["b"] = 2
    timer.advance(1)
    cache["a"] = 3
    assert cache.expire(6) == [("b", 2)]
    assert [*cache] == ["a"] and cache.expire(100) == [("a", 3)] and len(cache) == 0
    cache["c"] = 4
    timer.advance(4.9)
    assert [*cache] == ["c"]


def test_entries_that_never_expire_and_entries_that_are_already_expired(timer, make):
    forever = make(seconds=math.inf)
    forever["a"] = 1
    gone = make(seconds=-1)
    gone["a"] = 1
    never = make(seconds=math.nan)
    never["a"] = 1
    timer.advance(1e9)
    assert [*forever] == ["a"] and forever.pop("a") == 1
    assert [*gone] == [*never] == [] and len(gone) == len(never) == 0


def test_entries_of_one_moment_are_in_order_of_setting_also_in_copies(timer, make):
    cache = make(9)
    for key in "abcd":
        cache[key] = 1
    cache["b"] = 2
    assert cache["a"] == 1
    order = {"TTLCache": ["a", "c", "d", "b"], "TLRUCache": ["c", "d", "b", "a"]}[make.base.__name__]
    assert [*cache] == [*copy.copy(cache)] == order
    twin = copy.copy(cache)
    assert [twin.popitem()[0] for _ in order] == [cache.popitem()[0] for _ in order] == ["c", "d", "b", "a"]


def test_a_cache_that_contains_itself_has_a_repr(make):
    cache = make(9)
    cache["a"] = cache
    assert repr(cache) == f"{make.base.__name__}({{'a': ...}}, maxsize=9, currsize=1)"
    del cache["a"]


@pytest.mark.parametrize("kind", [dict, OrderedDict, UserDict])
def test_equality_with_any_mapping(make, kind):
    cache = make(9)
    cache["a"], cache["b"] = 1, math.nan
    twin = kind(cache.items())
    assert cache == twin and twin == cache and cache == copy.copy(cache)
    for change in [{"a": 2}, {"c": 1}]:
        other = kind(twin)
        other.update(change)
        assert cache != other and other != cache
    del twin["a"]
    assert cache != twin and cache != None and cache != 5  # noqa: E711


def test_a_walk_over_a_cache_that_is_cleared_ends_well(make, many_switches):
    cache, counts = make(5000), []

    def fill():
        for _ in range(30):
            cache.update((number, number) for number in range(5000))
            cache.clear()

    run_concurrently(fill, lambda: [counts.append(len([*cache])) for _ in range(200)])
    assert len(counts) == 200 and cache.get(1) is None
    cache.update((number, number) for number in range(5000))
    assert len([*cache]) == 5000


def test_a_closed_timer_leaves_a_cache_that_works(timer, make):
    cache = make(2)
    cache["a"] = 1
    timer.close()
    cache["b"] = cache["c"] = 2
    assert [*cache] == ["b", "c"]


def test_a_timer_that_returns_datetimes():
    cache = TTLCache(9, timedelta(hours=1), timer=datetime.now)
    cache["a"] = 1
    assert cache["a"] == 1 and cache.expire(datetime.now() + timedelta(hours=2)) == [("a", 1)]
    with pytest.raises(TypeError):
        TTLCache(9, timedelta(hours=1))["a"] = 1


# --- misuse --------------------------------------------------------------------------------------------------------


def test_bad_input_changes_nothing(make):
    for maxsize, error in [(-1, ValueError), (None, TypeError), ("9", TypeError)]:
        with pytest.raises(error):
            make(maxsize)
    cache = make(10, getsizeof=lambda value: value)
    cache["a"] = 4
    for key, value, error in [("b", 11, ValueError), ("b", -1, ValueError), ("b", "x", TypeError), ([], 1, TypeError)]:
        with pytest.raises(error):
            cache[key] = value
    for use in (cache.__getitem__, cache.__delitem__, cache.get, cache.pop, cache.__contains__):
        with pytest.raises(TypeError, match="unhashable"):
            use([])
    with pytest.raises(ValueError, match="set up already"):
        cache.__init__(10, print)
    assert (dict(cache), cache.currsize) == ({"a": 4}, 4)
    with pytest.raises(RuntimeError, match="set up"):
        make.base.__new__(make.base)["a"] = 1


def test_a_timer_on_a_process_pool_is_refused(make):
    with ProcessPoolExecutor(1) as executor, SystemTimer(executor=executor) as timer:
        with pytest.raises(ValueError, match="processes"):
            make(timer=timer.time)


def test_an_exception_of_the_users_code_changes_nothing(make):
    def fail(*arguments):
        raise KeyboardInterrupt

    cache = make(2)
    key = HookedKey(1)
    cache[key] = cache[HookedKey(2)] = 1
    HookedKey.hook = fail
    try:
        for use in (cache.__getitem__, cache.__delitem__, cache.pop, lambda key: cache.__setitem__(key, 2)):
            with pytest.raises(KeyboardInterrupt):
                use(HookedKey(2))
    finally:
        HookedKey.hook = None
    cache.getsizeof = fail
    assert [one.number for one in cache] == [1, 2] and cache[key] == 1
    failing = make(2, getsizeof=fail)
    with pytest.raises(KeyboardInterrupt):
        failing["a"] = 1
    assert len(failing) == 0


@pytest.mark.parametrize("user_timer", [False, True])
def test_keys_that_change_the_cache_when_they_are_compared(make, user_timer):
    options = {"timer": lambda: Moment(cache)} if user_timer else {}
    cache = {}
    cache = make(4, seconds=10, **options)
    changes = [
        cache.clear,
        cache.popitem,
        lambda: cache.__setitem__(object(), 1),
        lambda: cache.pop(HookedKey(1), None),
    ]
    tried = 0
    for change in changes:
        for use in (cache.get, cache.pop, lambda key: cache.__setitem__(key, 3), cache.setdefault, cache.__contains__):
            for number in range(3):
                cache[HookedKey(number)] = number

            def hook(change=change):
                HookedKey.hook = None
                change()

            HookedKey.hook = hook
            try:
                use(HookedKey(1))
            except KeyError:
                pass
            HookedKey.hook = None
            assert len([*cache.items()]) == len(cache) <= 4
            tried += 1
    assert tried == 20


class Moment:
    """A time that is always now, and reads the cache when it is compared."""

    def __init__(self, cache):
        self.cache = cache

    def __add__(self, seconds):
        return self

    __radd__ = __add__

    def __lt__(self, other):
        return len(self.cache._state()) > 0


def test_values_that_change_the_cache_when_they_are_freed(make):
    class Last:
        def __del__(self):
            cache["last"] = 1

    cache = make(2)
    for use in (cache.clear, cache.popitem, lambda: cache.__setitem__("a", 2), lambda: cache.pop("a")):
        cache["a"] = Last()
        cache["b"] = 1
        use()
        assert len(cache) <= 2
    with pytest.raises(KeyError):
        cache["nothing"]


class Deadline:
    """A deadline that calls `hook` when it is compared."""

    hook = None

    def __init__(self, seconds):
        self.seconds = seconds

    def __lt__(self, other):
        if Deadline.hook is not None:
            Deadline.hook()
        return self.seconds < other.seconds


def with_deadlines(now):
    """Return a TLRUCache whose values are their deadlines."""
    return TLRUCache(100, lambda key, value, time: value, timer=lambda: Deadline(now[0]))


@pytest.mark.parametrize("method", ["clear", "popitem", "expire"])
def test_deadlines_that_change_the_cache_when_they_are_compared(method):
    tried = 0
    for comparison in range(1, 8):
        cache = with_deadlines([0])
        for number in range(20):
            cache[number] = Deadline(1000 - number)
        countdown = [comparison]

        def hook(cache=cache, countdown=countdown):
            countdown[0] -= 1
            if countdown[0] == 0:
                Deadline.hook = None
                getattr(cache, method)()
                raise ZeroDivisionError

        Deadline.hook = hook
        try:
            with contextlib.suppress(ZeroDivisionError):
                cache["new"] = Deadline(1)
        finally:
            Deadline.hook = None
        tried += countdown[0] <= 0
        cache["last"] = Deadline(1)
        check_invariants(cache)
        assert len(cache.expire(Deadline(2000))) <= 22 and len(cache) == 0
    assert tried >= 4


def test_a_value_that_clears_the_cache_when_it_is_replaced(make):
    class Last:
        def __del__(self):
            cache.clear()

    now = [0]
    cache = make(timer=lambda: now[0])
    for _ in range(100):
        cache["a"] = Last()
        cache["a"] = 1
        assert [*cache] == []
        for number in range(5):
            cache[number] = number
        assert len(cache) == 5
        now[0] += 10
        assert len(cache) == 0


def test_threads_whose_deadlines_are_compared_by_python_code(many_switches):
    now = [0]
    cache = with_deadlines(now)
    counts = [0] * 3

    def use(which):
        for number in range(3000):
            cache[number * 7 % 50] = Deadline(now[0] + number % 9)
            cache.pop(number % 17, None)
            if number % 100 == 0:
                now[0] += 1
                assert len(cache) <= 50
            if number % 900 == 0:
                cache.clear()
            counts[which] += 1

    run_concurrently(*[lambda which=which: use(which) for which in range(3)])
    assert counts == [3000] * 3
    check_invariants(cache)
    now[0] += 100
    assert len(cache) == 0


def test_many_changed_deadlines_leave_the_heap():
    now = [0]
    cache = TLRUCache(math.inf, lambda key, value, time: value, timer=lambda: now[0])
    ends = []
    for round_ in range(5):
        for number in range(1000):
            cache[number] = 10_000 - number - round_
    cache["a"] = 5000.5
    assert sum(isinstance(one, list) and len(one) for one in gc.get_referents(cache)) < 3000
    for now[0] in range(8000, 11_000):
        ends += cache.expire()
    assert [key for key, _ in ends] == ["a", *range(999, -1, -1)]


# --- memory, threads, forks, exit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"timer": time.time}, {"getsizeof": lambda value: 1}])
def test_the_collector_finds_cycles_through_entries(make, options):
    class Owner:
        def __init__(self):
            self.cache = make.base(9, 60 if make.base is TTLCache else lambda key, value, now: now + 60, **options)

    owner = Owner()
    owner.cache["owner"] = owner.cache[owner] = owner
    end = weakref.ref(owner)
    del owner
    gc.collect()
    assert end() is None


@pytest.mark.parametrize("key, value, seen", [(1, "tea", []), ((), 1, [(), 1]), (1, [], [1, []])], ids=repr)
def test_the_collector_skips_entries_that_cannot_be_part_of_a_cycle(make, key, value, seen):
    cache = make(9)
    cache["a"] = cache["b"] = 0.5
    before = gc.get_referents(cache)
    cache[key] = value
    added = gc.get_referents(cache)[len(before) :]
    assert added == (["a", 0.5, "b", 0.5, *seen] if seen else [])


def test_clear_removes_all_entries_at_once(make):
    cache = make(math.inf)
    for number in range(10_000):
        cache[number] = number
    cache.clear()
    assert len(cache) == 0 and cache.get(1) is None and repr(cache).endswith("({}, maxsize=inf, currsize=0)")
    cache[1] = 1
    assert [*cache.items()] == [(1, 1)]


@pytest.mark.parametrize("known", [True, False])
def test_threads_share_a_cache_without_a_lock(make, known, many_switches):
    cache = make(50, 0.002, timer=time.monotonic if known else time.time, getsizeof=lambda value: value % 3)
    counts = [0] * 4

    def use(which):
        for number in range(4000):
            key = HookedKey(number % 70) if number % 7 == 0 else number % 70
            cache[key] = number
            cache.get(number % 31)
            cache.pop(number % 17, None)
            cache.setdefault(number % 13, number)
            if number % 50 == 0:
                assert 0 <= cache.currsize <= 50
                assert all(value % 3 <= 2 for value in cache.values())
                cache.expire()
            if number % 1000 == 0:
                cache.clear()
            counts[which] += 1

    run_concurrently(*[lambda which=which: use(which) for which in range(4)])
    assert counts == [4000] * 4
    assert 0 <= cache.currsize <= 50


def test_a_child_of_a_fork_has_the_entries_and_they_expire(ends_well):
    ends_well(
        """
import weakref
from hwheel.cachetools import TLRUCache, TTLCache

class Thing: pass

caches = [TTLCache(9, 0.5), TLRUCache(9, lambda key, value, now: now + 0.5), TTLCache(9, 0.5, timer=time.time)]
ends = []
for cache in caches:
    cache["a"] = Thing()
    ends.append(weakref.ref(cache["a"]))

def child():
    for cache in caches:
        cache["b"] = 1
    eventually(lambda: ends[0]() is ends[1]() is None)
    eventually(lambda: not any(len(cache) for cache in caches))

in_child(child)
child()
"""
    )


def test_threads_of_the_parent_freeze_no_time_in_the_child(ends_well):
    ends_well(
        """
import threading
from hwheel.cachetools import TTLCache

class Subclass(TTLCache):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)

    def expire(self, time=None):
        return super().expire(time)

caches = [TTLCache(9, 1), Subclass(9, 1)]
frozen, ended = threading.Barrier(4), threading.Event()

def freeze():
    with caches[0].timer, caches[1].timer:
        frozen.wait()
        ended.wait()

def look(before):
    for cache in caches:
        cache["a"] = 1
        assert cache.timer() > before

def child():
    before = time.monotonic()  # the C library gives new threads the ids of those that have ended
    for _ in range(4):
        thread = threading.Thread(target=look, args=(before,))
        thread.start()
        thread.join()
    with caches[0].timer as now:
        assert now > before

def child_with_frozen_time():
    now = caches[0].timer()
    time.sleep(0.001)
    assert caches[0].timer() == now
    caches[0]["b"] = 1

threads = [threading.Thread(target=freeze) for _ in range(3)]
for thread in threads:
    thread.start()
frozen.wait()
in_child(child)
with caches[0].timer:
    in_child(child_with_frozen_time)
ended.set()
for thread in threads:
    thread.join()
"""
    )


def test_at_interpreter_exit_a_cache_is_as_silent_as_a_dict(ends_well):
    ends_well(
        """
import atexit
from hwheel.cachetools import TTLCache, cached
old = TTLCache(100, 60)
old["a"] = 1

def use(cache):
    cache["b"] = 2
    assert cache["b"] == 2 and cached(cache)(len)("abc") == 3
    cache.clear()

atexit.register(lambda: use(old))
atexit.register(lambda: use(TTLCache(9, 1)))

def forever():
    while True:
        use(old)

threading.Thread(target=forever, daemon=True).start()
time.sleep(0.05)
"""
    )
