"""TTLCache and TLRUCache compared with cachetools' in random programs, under virtual timers."""

import copy
import math
import pickle

import pytest

import cachetools_sdist
from hwheel import ManualTimer
from hwheel.cachetools import TLRUCache, TTLCache
from invariants import check_invariants
from sampling import scaled, seeded_random

THEIRS = cachetools_sdist.cachetools()
PROGRAMS, STEPS = 300, 60
GONE = "gone"


@pytest.fixture(autouse=True, scope="module")
def the_shared_timer_runs():
    """Start the timer that all caches of the process share; no test stops it."""
    TTLCache(1, 1)["a"] = 1


class Clock:
    """A timer function that a test sets; it counts whole seconds or thirds of them."""

    def __init__(self, step):
        self.step, self.now = step, 0 * step

    def __call__(self):
        return self.now

    def advance(self, steps):
        self.now += steps * self.step


class Ttu:
    """The deadlines of a TLRUCache: some have passed already, some never come."""

    def __call__(self, key, value, now):
        return math.inf if value == 7 else now + (3 * key + value) % 6 - 1


def size_of(value):
    return value % 4 or value / 2


def recording(base):
    """Return a subclass that records evictions, expiries, misses, and deletions."""

    class Recording(base):
        def popitem(self):
            pair = super().popitem()
            self.events.append(("evicted", pair))
            return pair

        def expire(self, time=None):
            pairs = super().expire(time)
            self.events.extend(("expired", pair) for pair in pairs)
            return pairs

        def __missing__(self, key):
            return GONE

        def __delitem__(self, key):
            super().__delitem__(key)
            self.events.append(("deleted", key))

    return Recording


class Program:
    """A random program, and its two caches."""

    def __init__(self, number):
        self.random = random = seeded_random(number)
        kind = random.choice(["TTLCache", "TLRUCache"])
        self.in_order = kind == "TTLCache"
        self.known = random.random() < 0.4
        self.clock = ManualTimer(wheel_size=random.choice([2, 512])) if self.known else Clock(random.choice([1, 1 / 3]))
        timer = self.clock.time if self.known else self.clock
        span = random.choice([1, 3, 5.5, math.inf]) if self.in_order else Ttu()
        options = {"getsizeof": size_of} if random.random() < 0.4 else {}
        maxsize = random.choice([1, 2, 3, 5, 6.5, math.inf])
        bases = getattr(THEIRS, kind), {"TTLCache": TTLCache, "TLRUCache": TLRUCache}[kind]
        self.records = random.random() < 0.4
        if self.records:
            bases = [recording(base) for base in bases]
        self.caches = [base(maxsize, span, timer, **options) for base in bases]
        for cache in self.caches:
            cache.events = []

    def outcomes(self, operation):
        """Yield the result or the type of the error of an operation, for both caches."""
        for cache in self.caches:
            try:
                yield operation(cache)
            except (KeyError, ValueError) as error:
                yield type(error)

    def step(self):
        random = self.random
        key, value, name = random.randrange(6), random.randrange(9), random.choice([*OPERATIONS])
        if name == "advance":
            self.clock.advance(random.choice([0, 1, 1, 2, 6]))
            return
        if name in ("items", "sum of values") and not self.in_order:
            return  # they use the entries in the order of iteration, which is that of cachetools' heap
        theirs, ours = self.outcomes(lambda cache: OPERATIONS[name](cache, key, value))
        if name == "expire" and self.known:
            return  # our entries have left at their deadline
        if name == "expire" and not self.in_order:
            theirs, ours = {*theirs}, {*ours}  # of equal deadlines, cachetools returns any first
        assert theirs == ours, f"{name}({key}, {value})"

    def check(self):
        theirs, ours = self.caches
        if self.in_order:
            assert [*theirs] == [*ours]
        else:
            assert {*theirs} == {*ours}
        if self.random.random() < 0.5:
            assert len(theirs) == len(ours)
            assert theirs.currsize == pytest.approx(ours.currsize)
        if not self.known:
            sort = (lambda events: events) if self.in_order else (lambda events: sorted(map(repr, events)))
            assert sort(theirs.events) == sort(ours.events)
        check_invariants(ours)

    def check_order_of_eviction(self):
        """Compare the order in which copies evict."""
        copies = [copy.copy(cache) for cache in self.caches]
        theirs, ours = [[one.popitem() for _ in range(len(one))] for one in copies]
        assert theirs == ours


def changed(cache, key, value):
    cache[key] = value


def deleted(cache, key, value):
    del cache[key]


OPERATIONS = {
    "set": changed,
    "set again": changed,
    "advance": None,
    "get": lambda cache, key, value: cache.get(key, value),
    "getitem": lambda cache, key, value: cache[key],
    "delete": deleted,
    "pop": lambda cache, key, value: cache.pop(key),
    "pop or default": lambda cache, key, value: cache.pop(key, value),
    "popitem": lambda cache, key, value: cache.popitem(),
    "setdefault": lambda cache, key, value: cache.setdefault(key, value),
    "contains": lambda cache, key, value: key in cache,
    "update": lambda cache, key, value: cache.update({key: value, value: key}),
    "expire": lambda cache, key, value: cache.expire(),
    "items": lambda cache, key, value: {*cache.items()},
    "sum of values": lambda cache, key, value: sum(cache.values()),
    "clear": lambda cache, key, value: cache.clear() if value == 0 else None,
}


def test_random_programs_give_what_cachetools_gives():
    ran = 0
    for number in range(scaled(PROGRAMS)):
        program = Program(number)
        for _ in range(STEPS):
            program.step()
            program.check()
        program.check_order_of_eviction()
        ran += 1
    assert ran == scaled(PROGRAMS)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))])
def test_duplicates_go_on_like_the_original(duplicate):
    ran = 0
    for number in range(scaled(PROGRAMS // 3)):
        program = Program(10_000 + number)
        if program.known or program.records:
            continue  # a ManualTimer is not pickled, and neither are local classes
        for _ in range(STEPS // 2):
            program.step()
        program.caches = [duplicate(cache) for cache in program.caches]
        program.in_order = False  # from a pickle, cachetools restores entries of one deadline in order of use
        program.check()
        program.check_order_of_eviction()
        ran += 1
    assert ran >= 20
