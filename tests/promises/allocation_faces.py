"""Allocation failures in purgatories, event loops, ExpiringDict, TTLCache, and DelayQueue."""

import asyncio
from collections import deque
from functools import partial
from threading import Condition, Lock

from allocation_failures import FAR_MS, print_nothing, scenario
from containers import take_due
from hwheel import DelayQueue, ExpiringDict
from hwheel.asyncio import new_event_loop
from hwheel.cachetools import TTLCache, cached
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
from invariants import check_invariants

# --- purgatory ------------------------------------------------------------------------------------------------------


class Watched(DelayedOperation):
    ready = False

    def try_complete(self):
        return self.ready and self.force_complete()

    def on_complete(self):
        self.done.append(self)

    def on_expiration(self):
        self.late.append(self)


@scenario
def purgatory_add(world):
    purgatory = DelayedOperationPurgatory("p", timer=world.timer)
    operation = Watched(0.5)
    operation.done, operation.late = [], []
    keys = ["a", "b", 3]

    def check(error):
        if error is None and purgatory.num_delayed != 1:
            yield f"{purgatory.num_delayed} delayed"
        operation.ready = True
        purgatory.check_and_complete("a")
        world.timer.advance(1)
        if len(operation.done) > 1 or (error is None and len(operation.done) != 1):
            yield f"completed {len(operation.done)} times"
        purgatory.purge()
        if purgatory.watched or purgatory.num_delayed:
            yield f"{purgatory.watched} watched, {purgatory.num_delayed} delayed remain"
        purgatory.close()

    return lambda: purgatory.try_complete_else_watch(operation, keys), check


@scenario
def purgatory_check(world):
    purgatory = DelayedOperationPurgatory("p", timer=world.timer)
    operations = [Watched(0.5) for _ in range(3)]
    for operation in operations:
        operation.done, operation.late = [], []
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    for operation in operations:
        operation.ready = True

    def check(error):
        purgatory.check_and_complete("a")
        world.timer.advance(1)
        for operation in operations:
            if not operation.is_completed:
                yield "not completed"
        if purgatory.num_delayed:
            yield f"{purgatory.num_delayed} delayed remain"
        purgatory.close()

    return lambda: purgatory.check_and_complete("a"), check


# --- event loops ----------------------------------------------------------------------------------------------------


class LoopCase:
    """A loop with four calls. After the operation it runs, and each call must run once."""

    def __init__(self):
        self.loop = new_event_loop()
        self.loop.set_exception_handler(print_nothing)
        self.ran = deque()
        self.handles = [self.loop.call_later(delay / 1000, self.ran.append, delay) for delay in (2, 4, 4, 10_000)]

    def faults(self, calls):
        for _ in range(3):  # the loop raises once if its own code lacked memory
            try:
                self.loop.call_later(0.02, self.loop.stop)
                self.loop.run_forever()
            except MemoryError:
                continue
        if sorted(self.ran) != sorted(calls):
            yield f"ran {sorted(self.ran)}, expected {sorted(calls)}"
        check_invariants(self.loop._wheel_timers)
        for handle in self.handles:
            handle.cancel()
        self.loop.close()


def uses_loop(name, use, after, unchanged=(2, 4, 4)):
    """Register a scenario. `after`: the calls that run if the operation succeeds; `unchanged`: if it fails."""

    def prepare(world):
        case = LoopCase()
        return use(case), lambda error: case.faults(unchanged if error else after)

    scenario(prepare, name)


uses_loop("loop_call_later", lambda case: lambda: case.loop.call_later(0.003, case.ran.append, 3), (2, 3, 4, 4))
uses_loop("loop_call_at_far", lambda case: lambda: case.loop.call_at(FAR_MS, case.ran.append, 3), (2, 4, 4))
uses_loop(
    "loop_call_at_far_while_it_runs",  # the handle is hidden from the collector
    lambda case: partial(case.loop._wheel_timers.run, partial(case.loop.call_at, FAR_MS, case.ran.append, 3)),
    (2, 4, 4),
)
uses_loop("loop_call_later_first", lambda case: lambda: case.loop.call_later(0, case.ran.append, 3), (2, 3, 4, 4))
uses_loop("loop_cancel", lambda case: case.handles[1].cancel, (2, 4), (2, 4))
uses_loop("loop_reschedule", lambda case: lambda: case.handles[1].reschedule(0.006), (2, 4, 4))
uses_loop("loop_reschedule_far", lambda case: lambda: case.handles[1].reschedule(FAR_MS), (2, 4))


def loop_pass(world):
    """Fail allocations while the loop runs."""
    case = LoopCase()
    case.loop.call_later(0.008, case.loop.stop)
    return case.loop.run_forever, lambda error: case.faults((2, 4, 4))


scenario(loop_pass, most=30, single_failures=True, runs_python=True)


def await_task(world):
    """The task runs, whether or not a coroutine could begin to await it."""
    case = LoopCase()
    task = world.later(0.5)
    wait = task.__await__()
    waits = []

    def act():
        waits.append(None)
        asyncio._set_running_loop(case.loop)
        waits[0] = wait.send(None)

    def check(error):
        asyncio._set_running_loop(None)
        world.timer.advance(1)
        if error is None:
            case.loop.run_until_complete(asyncio.wait_for(waits[0], 30))
        yield from case.faults((2, 4, 4))

    return act, check


scenario(await_task, runs_python=True)


# --- containers -----------------------------------------------------------------------------------------------------


class DictCase:
    """An ExpiringDict with four entries, and its expired entries."""

    def __init__(self, world, **options):
        self.expired = deque()
        self.dict = ExpiringDict(1, on_expire=self.expired.append, timer=world.timer, **options)
        for key in range(4):
            self.dict.set(key, str(key), ttl=1 + key)

    def faults(self, world, keys):
        if sorted(self.dict) != sorted(keys):
            yield f"keys {sorted(self.dict)}, expected {sorted(keys)}"
        check_invariants(self.dict)
        world.timer.advance(FAR_MS)
        found = sorted(key for those in self.expired for key, _ in those)
        if found != sorted(keys) or len(self.dict):
            yield f"expired {found}, expected {sorted(keys)}; {len(self.dict)} remain"


def uses_dict(name, use, after=(), **options):
    """Register a scenario. `after`: the keys if the operation succeeds. If it fails, they stay the same."""

    def prepare(world):
        held = DictCase(world, **options)

        def check(error):
            yield from held.faults(world, [0, 1, 2, 3] if error else after)

        return use(held.dict), check

    scenario(prepare, name)


ALL = [0, 1, 2, 3]
uses_dict("dict_set", lambda d: lambda: d.set(9, "x"), [*ALL, 9])
uses_dict("dict_set_far", lambda d: lambda: d.set(9, "x", ttl=FAR_MS // 2), [*ALL, 9])
uses_dict("dict_set_item", lambda d: lambda: d.__setitem__(9, "x"), [*ALL, 9])
uses_dict("dict_set_again", lambda d: lambda: d.set(2, "x", ttl=9), ALL)
uses_dict("dict_set_beyond_maxsize", lambda d: lambda: d.set(9, "x", ttl=9), [1, 2, 3, 9], maxsize=4)
uses_dict("dict_setdefault", lambda d: lambda: d.setdefault(9, "x"), [*ALL, 9])
uses_dict("dict_get", lambda d: lambda: d[2], ALL)
uses_dict("dict_get_refreshed", lambda d: lambda: d[2], ALL, refresh=True)
uses_dict("dict_touch", lambda d: lambda: d.touch(2, 50), ALL)
uses_dict("dict_pop", lambda d: lambda: d.pop(2), [0, 1, 3])
uses_dict("dict_popitem", lambda d: d.popitem, [0, 1, 2])
uses_dict("dict_delete", lambda d: lambda: d.__delitem__(2), [0, 1, 3])
uses_dict("dict_list", lambda d: lambda: list(d), ALL)
uses_dict("dict_items", lambda d: lambda: list(d.items()), ALL)
uses_dict("dict_expires_in", lambda d: lambda: d.expires_in(2), ALL)


@scenario
def dict_fill(world):
    """Add so many entries that the table grows."""
    held = DictCase(world)

    def fill():
        for key in range(4, 60):
            held.dict[key] = None

    def check(error):
        keys = sorted(held.dict)
        if keys != [*range(len(keys))]:
            yield f"keys {keys}"
        yield from held.faults(world, keys)

    return fill, check


@scenario
def dict_clear(world):
    held = DictCase(world)

    def check(error):
        if len(held.dict) not in ((0,) if error is None else (0, 4)):
            yield f"{len(held.dict)} remain after {error!r}"
        held.dict.clear()
        yield from held.faults(world, [])

    return held.dict.clear, check


@scenario
def dict_expire(world):
    held = DictCase(world)
    for key in range(4, 40):  # a list of their pairs grows more than once
        held.dict.set(key, "x", ttl=4)

    def check(error):
        world.timer.advance(FAR_MS)
        keys = [key for those in held.expired for key, _ in those]
        if sorted(keys) != [*range(40)] or len(held.dict):
            yield f"expired {keys}; {len(held.dict)} remain, after {error!r}"

    return lambda: world.timer.advance(10), check


TTLCache(1, 1)  # creates the timer that caches share, before live objects are counted


class Overriding(TTLCache):
    """A cache whose other methods call these. They need no memory."""

    expire = __contains__ = staticmethod(bool)


class CacheCase:
    """A cache with four entries."""

    def __init__(self, world, cls):
        self.cache = cls(8, 5, world.timer.time)
        for key in range(4):
            self.cache[key] = 1

    def faults(self, world, keys):
        if {*self.cache} != {*keys}:
            yield f"keys {[*self.cache]}, expected {keys}"
        check_invariants(self.cache)
        world.timer.advance(FAR_MS)
        if len(self.cache):
            yield f"{len(self.cache)} remain"


def uses_cache(name, use, after, cls=TTLCache):
    """Register a scenario. `after`: the keys if the operation succeeds. If it fails, they stay the same."""

    def prepare(world):
        held = CacheCase(world, cls)

        def check(error):
            yield from held.faults(world, ALL if error else after)

        return use(held.cache), check

    scenario(prepare, f"cache_{name}")


uses_cache("set", lambda cache: lambda: cache.__setitem__(9, 1), [*ALL, 9])
uses_cache("set_again", lambda cache: lambda: cache.__setitem__(2, 1), ALL)
uses_cache("setdefault", lambda cache: lambda: cache.setdefault(9, 1), [*ALL, 9])
uses_cache("get", lambda cache: lambda: cache[2], ALL)
uses_cache("pop", lambda cache: lambda: cache.pop(2), [0, 1, 3])
uses_cache("popitem", lambda cache: cache.popitem, [1, 2, 3])
uses_cache("delete", lambda cache: lambda: cache.__delitem__(2), [0, 1, 3])
uses_cache("list", lambda cache: lambda: list(cache), ALL)
uses_cache("clear", lambda cache: cache.clear, [])
uses_cache("expire", lambda cache: cache.expire, ALL)
uses_cache("overriding_set", lambda cache: lambda: cache.__setitem__(9, 1), [*ALL, 9], Overriding)
uses_cache("overriding_get", lambda cache: lambda: cache.get(2), ALL, Overriding)
uses_cache("overriding_setdefault", lambda cache: lambda: cache.setdefault(0, 1), ALL, Overriding)
uses_cache("overriding_pop", lambda cache: lambda: cache.pop(2), [0, 1, 3], Overriding)
uses_cache("overriding_popitem", lambda cache: cache.popitem, [1, 2, 3], Overriding)
uses_cache("overriding_length", lambda cache: cache.__len__, ALL, Overriding)


def uses_cached(name, option, make_lock, **how):
    """Register a scenario for a call of a cached function. If it fails, its result may be in the cache."""

    def prepare(world):
        held, lock = CacheCase(world, TTLCache), make_lock()
        function = cached(held.cache, **{option: lock})(str.upper)

        def check(error):
            if lock is not None and not lock.acquire(blocking=False):
                yield "the lock is not released"
            yield from held.faults(world, [*ALL, ("x",)] if ("x",) in held.cache or error is None else ALL)

        return partial(function, "x"), check

    scenario(prepare, name, **how)


uses_cached("cached_call", "lock", lambda: None)
uses_cached("cached_call_with_lock", "lock", Lock)
uses_cached("cached_call_with_condition", "condition", Condition, runs_python=True)


@scenario
def cache_expire_many(world):
    """Pairs that were taken before memory ran out are returned; the rest follows."""
    now = [0]
    cache = TTLCache(99, 5, partial(now.__getitem__, 0))
    for key in range(40):
        cache[key] = 1
    now[0] = 9
    found = [[]]

    def act():
        found[0] = cache.expire()

    def check(error):
        keys = [key for key, _ in found[0] + cache.expire()]
        if keys != [*range(40)]:
            yield f"expired {keys}, after {error!r}"

    return act, check


class QueueCase:
    def __init__(self, world):
        self.queue = DelayQueue(timer=world.timer)
        self.keys = [self.queue.put(number, 1 + number) for number in range(4)]

    def faults(self, world, items):
        check_invariants(self.queue)
        world.timer.advance(FAR_MS)
        found = take_due(self.queue)
        if sorted(found) != sorted(items) or len(self.queue):
            yield f"took {found}, expected {items}; {len(self.queue)} remain"


def uses_queue(name, use, after, late=0):
    def prepare(world):
        held = QueueCase(world)
        world.timer.advance(late)

        def check(error):
            yield from held.faults(world, ALL if error else after)

        return use(held), check

    scenario(prepare, name)


uses_queue("queue_put", lambda held: lambda: held.queue.put(9, 2), [*ALL, 9])
uses_queue("queue_put_far", lambda held: lambda: held.queue.put(9, FAR_MS // 2), [*ALL, 9])
uses_queue("queue_put_due", lambda held: lambda: held.queue.put(9, -1), [*ALL, 9])
uses_queue("queue_reset", lambda held: lambda: held.queue.reset(held.keys[2], FAR_MS // 2), ALL)
uses_queue("queue_remove", lambda held: lambda: held.queue.remove(held.keys[2]), [0, 1, 3])
uses_queue("queue_peek", lambda held: held.queue.peek, ALL)
uses_queue("queue_peek_due", lambda held: held.queue.peek, ALL, late=2)
uses_queue("queue_get", lambda held: held.queue.get_nowait, [1, 2, 3], late=1.5)
uses_queue("queue_get_with_timeout", lambda held: lambda: held.queue.get(timeout=5), [1, 2, 3], late=1.5)


@scenario
def queue_drain(world):
    held = QueueCase(world)
    world.timer.advance(2.5)
    found = [[]]

    def act():
        found[0] = held.queue.drain()

    def check(error):
        world.timer.advance(FAR_MS)
        items = [*found[0], *take_due(held.queue)]
        if sorted(items) != ALL or len(held.queue):
            yield f"took {items}; {len(held.queue)} remain, after {error!r}"

    return act, check
