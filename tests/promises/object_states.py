"""Factories of objects in every state of their lives, for each class of the core and each class built on one."""

import asyncio
import atexit
import functools
import importlib
import pkgutil
import tempfile
from array import array
from concurrent.futures import Future
from pathlib import Path
from threading import RLock

import hwheel
from hwheel.asyncio import Timeouts
from hwheel.asyncio.timers import WheelTimers
from hwheel.cachetools import TTLCache, cachedmethod, keys
from hwheel.extras import MissingExtraError
from hwheel.purgatory import DelayedFuturePurgatory
from hwheel.recorder import Recorder, RecordingTimer
from hwheel_core import _core

# Other tests cover these packages: they start Spark, read files, or run whole programs.
OTHER_PACKAGES = ("hwheel.spark", "hwheel.cli", "hwheel.__main__", "hwheel.tune")
# Callers of hwheel never receive these objects, or only as a base class. They are tried without initialization alone.
INTERNAL = {
    "Awaited",
    "BaseTimer",
    "BlockingDelayQueueCore",
    "CacheCore",
    "CacheDeadline",
    "CachedCall",
    "Census",
    "CensusGroup",
    "Columns",
    "ContainerCore",
    "DelayQueueCore",
    "ExpiringDictCore",
    "Int64Buffer",
    "Latch",
    "Line",
    "LoopCall",
    "ThreadPool",
    "TimerExpiry",
    "WatchList",
    "Worker",
    "_TimedCache",
}
NEED_A_LOOP = {"LoopTimers", "WheelTimers", "Timeouts", "CacheTimer"}  # their __new__ has required arguments
FACTORIES = {}  # name of a class -> function(cls) -> {state: function() -> object}


def classes():
    """Return name -> class for all classes of the core and all classes of hwheel that are built on one of them."""
    for module in pkgutil.walk_packages(hwheel.__path__, "hwheel."):
        if not module.name.startswith(OTHER_PACKAGES):
            try:
                importlib.import_module(module.name)
            except MissingExtraError:
                pass  # an optional dependency; test_states.py knows how many classes there must be
    found = [cls for cls in vars(_core).values() if isinstance(cls, type) and is_compiled(cls)]
    for cls in found:
        found += [sub for sub in cls.__subclasses__() if sub.__module__.startswith("hwheel") and sub not in found]
    named = {}
    for cls in found:
        named[cls.__name__ if cls.__name__ not in named else f"{cls.__module__}.{cls.__name__}"] = cls
    return named


def is_compiled(cls):
    heap_type = 1 << 9  # Py_TPFLAGS_HEAPTYPE: created by a class statement
    return cls.__module__.startswith("hwheel") and not cls.__flags__ & heap_type


def states_of(cls):
    """Return state -> factory. Raise KeyError for a class without factories: add a function with @factories_of."""
    states = {} if cls.__name__ in NEED_A_LOOP else {"uninitialized": functools.partial(bare, cls)}
    if cls.__name__ not in INTERNAL:
        states |= FACTORIES[cls.__name__](cls)
    return states


def factories_of(*names):
    def register(function):
        FACTORIES.update(dict.fromkeys(names, function))
        return function

    return register


def ignore(*args):
    pass


def bare(cls):
    return cls.__new__(cls)


def after(thing, method, *args):
    """Call a method of a thing, and return the thing."""
    getattr(thing, method)(*args)
    return thing


def failed_init(thing, *args):
    """Call __init__ with invalid arguments, or once more, and return the thing."""
    try:
        thing.__init__(*args)
    except (TypeError, ValueError):
        pass
    return thing


# --- timers --------------------------------------------------------------------------------------------------------


def busy(timer):
    """Add a task of every kind to a timer, and return the timer."""
    timer.call_later(1000.0, ignore, 1)
    timer.call_every(9e11, ignore)  # few runs, however far the clock advances
    timer.call_every(9e11, ignore, slack=9, jitter=9, max_lateness=9)
    timer.call_later(9.0, ignore, 1, slack=9, max_lateness=9)
    timer.call_at(-9.0, ignore, 1, max_lateness=1)
    timer.call_many(array("q", [10**6, 0, 2 * 10**6]), ignore)
    timer.add(hwheel.TimerTask(3 * 10**6, ignore, 1, 2, key=3))
    return timer


@factories_of("TimingWheel")
def wheels(cls):
    def full():
        wheel = cls(1, 4)
        wheel.add(hwheel.TimerTask(3), 3)
        wheel.add(hwheel.TimerTask(300), 300)
        return wheel

    return {"new": cls, "full": full, "overflow wheel": lambda: full().overflow_wheel}


def timer_states(new):
    return {"new": new, "busy": lambda: busy(new()), "closed": lambda: after(busy(new()), "close")}


@factories_of("ManualTimer")
def manual_timers(cls):
    return timer_states(cls) | {
        "initialized twice": lambda: failed_init(cls(), "again"),
        "init failed": lambda: failed_init(bare(cls), 5),
    }


@factories_of("SystemTimer")
def system_timers(cls):
    return manual_timers(cls) | {
        "without reaper": lambda: busy(cls(reaper=False)),
        "inline executor": lambda: busy(cls(executor="inline")),
        "callable clock": lambda: busy(cls(clock=lambda: 5, reaper=False)),
    }


@functools.cache
def recorder():
    folder = tempfile.TemporaryDirectory(prefix="hwheel-states-")
    atexit.register(folder.cleanup)
    made = Recorder(Path(folder.name) / "log")
    atexit.register(made.close)  # runs before the cleanup
    return made


@factories_of("RecordingTimer")
def recording_timers(cls):
    return timer_states(lambda: cls(recorder())) | {"init failed": lambda: failed_init(bare(cls), 5)}


class EngineStub:
    """The part of a TimerEngine that its timer calls."""

    def begin(self):
        pass

    def closes_later(self):
        return False


@factories_of("_EngineTimer")
def engine_timers(cls):
    return timer_states(lambda: cls(EngineStub()))


# --- tasks, batches, groups ----------------------------------------------------------------------------------------

SHARED_TIMER = hwheel.ManualTimer("pending tasks")


def pending(task):
    SHARED_TIMER.add(task)
    return task


def expired(task):
    timer = hwheel.ManualTimer()
    timer.add(task)
    timer.advance(0.01)
    return task


def periodic_task():
    return hwheel.ManualTimer().call_every(5.0, ignore)


@factories_of("TimerTask", "ContainerAlarm")
def tasks(cls):
    return {
        "new": lambda: cls(5, ignore),
        "pending": lambda: pending(cls(5, ignore, 1)),
        "cancelled": lambda: after(cls(5, ignore, key=1), "cancel"),
        "expired": lambda: expired(cls(5, ignore)),
        "init failed": lambda: failed_init(bare(cls), "5"),
        "initialized twice": lambda: failed_init(cls(5, ignore, 1), 6, ignore, 2, 3),
    }


@factories_of("TermsTask")
def terms_tasks(cls):
    return tasks(cls) | {"on a timer": lambda: SHARED_TIMER.call_later(5, ignore, 1, slack=1, max_lateness=1)}


@factories_of("GroupTermsTask")
def group_terms_tasks(cls):
    group = hwheel.ManualTimer().group()
    return tasks(cls) | {"in a group": lambda: group.call_later(5, ignore, 1, slack=1, max_lateness=1)}


@factories_of("PeriodicTask")
def periodic_tasks(cls):
    return {"pending": periodic_task, "cancelled": lambda: after(periodic_task(), "cancel")}


@factories_of("RecordedTask")
def recorded_tasks(cls):
    timer = RecordingTimer(recorder(), reaper=False)
    return {
        "pending": lambda: timer.call_later(1000.0, ignore, 1),
        "cancelled": lambda: after(timer.call_later(1000.0, ignore, 1), "cancel"),
    }


@factories_of("TimerBatch")
def batches(cls):
    def with_timer(method):
        timer = hwheel.ManualTimer()
        return method(timer, timer.call_many(array("q", [5, 0, 7, 10**7, -1]), ignore))

    def extended(delays_ms):
        batch = SHARED_TIMER.call_many(array("q", delays_ms), ignore)
        for more in ([7], [0, 10**7] * 50, [10**6]):
            batch.extend(array("q", more), ignore)
        return batch

    return {
        "pending": lambda: with_timer(lambda timer, batch: batch),
        "cancelled": lambda: with_timer(lambda timer, batch: after(batch, "cancel")),
        "returned by close": lambda: with_timer(lambda timer, batch: timer.close()[0]),
        "extended": lambda: extended([5, 10**7]),
        "extended and cancelled": lambda: after(extended([]), "cancel"),
    }


@factories_of("TimerGroup")
def groups(cls):
    def full(timer):
        group = timer.group()
        group.call_later(1.0, ignore, 1)
        group.call_at(5.0, ignore)
        group.call_every(9e11, ignore)
        return group

    def after_timer(method, *args):
        timer = hwheel.ManualTimer()
        group = full(timer)
        getattr(timer, method)(*args)
        return group

    return {
        "empty": lambda: hwheel.ManualTimer().group(),
        "full": lambda: full(hwheel.ManualTimer()),
        "closed": lambda: after(full(hwheel.ManualTimer()), "close"),
        "timer closed": lambda: after_timer("close"),
        "expired": lambda: after_timer("advance", 10.0),
    }


@factories_of("GroupTask", "GroupPeriodicTask")
def group_tasks(cls):
    def in_group(seconds=0.0):
        timer = hwheel.ManualTimer()
        group = timer.group()
        task = group.call_later(5.0, ignore, 1) if cls.__name__ == "GroupTask" else group.call_every(5.0, ignore)
        timer.advance(seconds)
        return task

    return {
        "pending": in_group,
        "cancelled": lambda: after(in_group(), "cancel"),
        "expired": lambda: in_group(6.0),
        "new": lambda: cls(5, ignore),
    }


@factories_of("HandedOut")
def handed_out(cls):
    def submitted(*methods, batch=False):
        """Return the call that a timer submitted to its executor, after calling these methods of it."""
        kept = []

        class KeepingExecutor:
            def submit(self, function, handed):
                kept.append(handed)

        timer = hwheel.SystemTimer(executor=KeepingExecutor(), reaper=False)
        if batch:
            timer.call_many(array("q", [0, 0]), ignore)
        else:
            timer.call_every(1e9, ignore).reschedule(0)
        while not kept:
            timer.advance_clock(1)
        for method in methods:
            getattr(kept[0], method)()
        return kept[0]

    return {
        "submitted": submitted,
        "finished": lambda: submitted("finish"),
        "given up": lambda: submitted("give_up"),
        "of a batch": lambda: submitted(batch=True),
    }


@factories_of("RLock")
def locks(cls):
    return {"released": cls, "held": lambda: after(cls(), "acquire")}


# --- event loops ---------------------------------------------------------------------------------------------------

ASYNCIO_LOOP = asyncio.new_event_loop()  # runs only to create an AwaitedOperation


class LoopStub:
    """The part of an event loop that a LoopTimers calls. fire() runs the scheduled calls."""

    def __init__(self):
        self.now = 1.0
        self.calls = []

    def time(self):
        return self.now

    def call_at(self, when, callback, *args, context=None):
        self.calls.append((callback, args))
        return self

    call_later = call_at

    def call_soon(self, callback, *args, context=None):
        return self.call_at(self.now, callback, *args)

    def cancel(self):
        pass

    def fire(self, seconds):
        self.now += seconds
        calls, self.calls = self.calls, []
        for callback, args in calls:
            callback(*args)


def filled_timers(timers):
    for delay in (5.0, 0.001, 9999.0):
        timers.call_later(delay, ignore, delay)
    return timers


def fired(timers):
    timers.loop.fire(6.0)
    return timers


def in_debug_mode(timers):
    timers.debug = True
    return timers


def loop_timers_states(new):
    return {
        "empty": new,
        "full": lambda: filled_timers(new()),
        "closed": lambda: after(filled_timers(new()), "close"),
    }


@factories_of("LoopTimers")
def loop_timers(cls):
    def new():
        loop = LoopStub()
        return cls(loop, loop)

    return loop_timers_states(new) | {"fired": lambda: fired(filled_timers(new()))}


@factories_of("WheelTimers")
def wheel_timers(cls):
    def new():
        return cls(ASYNCIO_LOOP, ASYNCIO_LOOP)

    return loop_timers_states(new) | {"debug mode": lambda: filled_timers(in_debug_mode(new()))}


@factories_of("Timeouts")
def timeouts(cls):
    def new():
        return cls(ASYNCIO_LOOP)

    return loop_timers_states(new) | {"debug mode": lambda: filled_timers(in_debug_mode(new()))}


@factories_of("TimerHandle")
def timer_handles(cls):
    def expired_handle():
        loop = LoopStub()
        timers = WheelTimers(loop, loop)
        handle = timers.call_later(1.0, ignore)
        loop.fire(6.0)
        return handle

    def of_timers(timers):
        """Return a handle. It keeps `timers` alive."""
        return timers.call_later(1.0, ignore)

    return {
        "pending": lambda: of_timers(Timeouts(ASYNCIO_LOOP)),
        "cancelled": lambda: after(of_timers(Timeouts(ASYNCIO_LOOP)), "cancel"),
        "expired": expired_handle,
        "debug mode": lambda: of_timers(in_debug_mode(Timeouts(ASYNCIO_LOOP))),
    }


@factories_of("Timeout")
def loop_timeouts(cls):
    def used(make, seconds, *, leave):
        """Return a timeout whose block has run for so many seconds on a loop that is closed now."""

        async def main():
            limit = make()
            await limit.__aenter__()
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                asyncio.current_task().uncancel()
            if leave:
                await limit.__aexit__(None, None, None)
            return limit

        return hwheel.asyncio.run(main())

    return {
        "created": lambda: cls(1.0),
        "never": lambda: cls(None),
        "idle": lambda: hwheel.asyncio.idle_timeout(1.0),
        "active": lambda: used(lambda: hwheel.asyncio.timeout(3600), 0, leave=False),
        "active and idle": lambda: used(lambda: hwheel.asyncio.idle_timeout(3600), 0, leave=False),
        "expiring": lambda: used(lambda: hwheel.asyncio.timeout(0.001), 60, leave=False),
        "finished": lambda: used(lambda: hwheel.asyncio.timeout(3600), 0, leave=True),
    }


@factories_of("TimeoutStep")
def timeout_steps(cls):
    def awaited(step):
        try:
            next(step)
        except (StopIteration, RuntimeError):  # no loop is running
            return step
        raise AssertionError("a step suspended")

    return {
        "entering": lambda: hwheel.asyncio.timeout_at(1.0).__aenter__(),
        "leaving": lambda: hwheel.asyncio.timeout_at(1.0).__aexit__(ValueError, ValueError(), None),
        "awaited": lambda: awaited(hwheel.asyncio.timeout_at(1.0).__aenter__()),
    }


# --- purgatory -----------------------------------------------------------------------------------------------------


@factories_of("OperationCore", "DelayedOperation")
def operations(cls):
    return {"new": lambda: cls(5), "cancelled": lambda: after(cls(5), "cancel")}


@factories_of("DelayedFuture")
def delayed_futures(cls):
    purgatories = [
        DelayedFuturePurgatory("states", hwheel.ManualTimer(), fail_pending=fail_pending)
        for fail_pending in (False, True)
    ]

    def watched(fail_pending=False):
        futures = [Future(), Future()]
        return purgatories[fail_pending].try_complete_else_watch(30_000, futures, ignore)

    def completed():
        operation = watched()
        for future in operation.futures:
            future.set_result(1)
        return operation

    return {
        "pending": watched,
        "pending, with fail_pending": lambda: watched(True),
        "cancelled": lambda: after(watched(), "cancel"),
        "completed": completed,
    }


@factories_of("AwaitedOperation")
def awaited_operations(cls):
    async def create():
        return cls(5, bool)

    def new():
        return ASYNCIO_LOOP.run_until_complete(create())

    return {
        "new": new,
        "cancelled": lambda: after(new(), "cancel"),
        "completed": lambda: after(new(), "force_complete"),
    }


@factories_of("PurgatoryCore")
def purgatory_cores(cls):
    def empty():
        purgatory = cls()
        purgatory._start_empty()
        purgatory.timer = hwheel.ManualTimer()
        return purgatory

    return {"empty": empty}


@factories_of("DelayedOperationPurgatory")
def purgatories(cls):
    return {
        "new": lambda: cls("purgatory", hwheel.ManualTimer()),
        "closed": lambda: after(cls("purgatory", hwheel.ManualTimer()), "close"),
    }


# --- containers ----------------------------------------------------------------------------------------------------


def with_closed_timer(container):
    container.timer.close()
    return container


@factories_of("ExpiringDict")
def expiring_dicts(cls):
    def filled(dictionary, seconds=0.0):
        for key in (1, "a", (2,), None):
            dictionary.set(key, object(), ttl=1 + len(dictionary))
        dictionary.timer.advance(seconds)
        return dictionary

    def new(**options):
        return cls(5, timer=hwheel.ManualTimer(), **options)

    def alarm_failed():
        """Return a dict whose on_expire raised in its alarm, because the timer refuses to advance there."""
        dictionary = cls(1, timer=hwheel.ManualTimer(), on_expire=lambda pairs: dictionary.timer.advance(1))
        try:
            filled(dictionary, 2)
        except RuntimeError:
            pass
        return dictionary

    return {
        "empty": new,
        "full": lambda: filled(new(maxsize=4, refresh=True, on_expire=ignore)),
        "expired": lambda: filled(new(), 5),
        "alarm failed": alarm_failed,
        "timer closed": lambda: with_closed_timer(filled(new())),
        "initialized twice": lambda: failed_init(filled(new()), 7),
        "init failed": lambda: failed_init(bare(cls), "5"),
    }


@factories_of("TTLCache", "TLRUCache")
def caches(cls):
    def new(*, seconds=None, user_timer=False, closed=False, **options):
        timer = hwheel.ManualTimer()
        span = 5 if cls is TTLCache else lambda key, value, now: now + 5
        cache = cls(4, span, timer=(lambda: 0) if user_timer else timer.time, **options)
        for key in (1, "a", (2,), None) if seconds is not None else ():
            cache[key] = object()
        timer.advance(seconds or 0)
        if closed:
            timer.close()
        return cache

    return {
        "empty": new,
        "full": lambda: new(seconds=1),
        "expired": lambda: new(seconds=5),
        "with sizes": lambda: new(seconds=1, getsizeof=lambda value: 1.5),
        "with a timer of the user's": lambda: new(seconds=1, user_timer=True),
        "in standing time": lambda: standing(new(seconds=1)),
        "timer closed": lambda: new(seconds=1, closed=True),
        "initialized twice": lambda: failed_init(new(seconds=1), 7, 8),
        "init failed": lambda: failed_init(bare(cls), "5", 5),
    }


def standing(cache):
    cache.timer.__enter__()
    return cache


@factories_of("CacheTimer")
def cache_timers(cls):
    return {"new": lambda: cls(hwheel.ManualTimer().time), "entered": lambda: after(cls(float), "__enter__")}


@factories_of("_CachedFunction", "_CachedFunctionWithInfo")
def cached_functions(cls):
    return {
        "new": lambda: cls(ignore, ({}, keys.hashkey, None, None), False),
        "single flight": lambda: cls(ignore, (TTLCache(4, 5), keys.hashkey, None, None), True),
        "with a lock": lambda: cls(ignore, ({}, keys.typedkey, RLock(), None), False),
    }


class CacheOwner:
    def __init__(self):
        self.cache = {}

    @cachedmethod(lambda self: self.cache)
    def plain(self, *args):
        return args

    @cachedmethod(lambda self: self.cache, info=True, lock=lambda self: RLock(), single_flight=True)
    def counted(self, *args):
        return args


@factories_of("_BoundCall", "_BoundCallWithInfo")
def bound_calls(cls):
    return {"new": lambda: CacheOwner().counted if cls.__name__.endswith("Info") else CacheOwner().plain}


def queued(queue, seconds=0.0):
    for delay in (0, 5, 300, 1e6):
        queue.put_nowait(delay, delay)
    queue.timer.advance(seconds)
    return queue


@factories_of("DelayQueue")
def delay_queues(cls):
    def new(*maxsize):
        return cls(*maxsize, timer=hwheel.ManualTimer())

    return {
        "empty": new,
        "full": lambda: queued(new(4)),
        "due": lambda: queued(new(), 5000),
        "shut down": lambda: after(queued(new()), "shutdown"),
        "timer closed": lambda: with_closed_timer(queued(new())),
        "initialized twice": lambda: failed_init(queued(new()), 7),
        "init failed": lambda: failed_init(bare(cls), "5"),
    }


@factories_of("DelayKey")
def delay_keys(cls):
    queue = hwheel.DelayQueue(timer=hwheel.ManualTimer())

    def removed():
        key = queue.put(1, 1000)
        queue.remove(key)
        return key

    return {"waiting": lambda: queue.put(1, 1000), "removed": removed}
