"""Correct uses of hwheel, which mypy and pyright must accept (test_types.py)."""

import asyncio
from array import array
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import hwheel.asyncio
from hwheel import (
    DelayQueue,
    ExpiringDict,
    HwheelError,
    ManualTimer,
    SystemTimer,
    Timer,
    TimerBatch,
    TimerFull,
    TimerTask,
    TimingWheel,
    sched,
)
from hwheel.purgatory import DelayedFuturePurgatory, DelayedOperation, DelayedOperationPurgatory
from hwheel.types import BaseTimer, DelayKey, TimerStats, WheelSnapshot


class Ping(TimerTask):
    def __init__(self, host: str) -> None:
        super().__init__(5_000)
        self.host = host

    def run(self) -> None:
        print(self.host)


def show(indices: "array[int]") -> None:
    print(list(indices))


def report(source: object, error: BaseException) -> None:
    print(source, error)


def use(timer: BaseTimer) -> TimerStats:
    ping: Ping = timer.add(Ping("localhost"))
    task: TimerTask = timer.call_later(1.5, print, "later")
    repeating: TimerTask = timer.call_every(1, print, "tick", missed_ticks="burst")
    batch: TimerBatch = timer.call_many(array("q", [1, 2, 3]), show)
    kept: bool = task.cancel() and repeating.reschedule(0.01) and ping.pending
    timer.call_many(np.array([1, 2, 3]), show).cancel(np.array([0]))
    new: range = batch.extend(array("q", [4]), show)
    print(new, batch.extend(array("q", [5])).stop)
    print(kept, batch.cancel([1]), timer.pending()[0].deadline_ms, len(timer), timer.call_at(timer.time() + 1, print))
    for left in timer.close(run_pending=True, timeout=1):
        print(left.indices() if isinstance(left, TimerBatch) else left.args)
    return timer.stats()


class Measure(TimerTask[float]):
    def run(self) -> float:
        return 0.5


async def results(timer: BaseTimer) -> float:
    longest: int = await timer.call_later(0.01, max, 1, 2)
    named: TimerTask[str] = timer.group().call_at(timer.time() + 1, str, 5)
    every: str = await timer.call_every(0.01, str.upper, "tick", max_lateness=1)
    added: dict[str, int] = await timer.add(TimerTask(5, lambda: {"a": 1}))
    measured: float = await timer.add(Measure(5))
    print(longest + 1, (await named).upper(), every.upper(), added["a"])
    left: float = named.remaining()
    return left + measured + (named.deadline or 0)


def add_or_not(timer: SystemTimer) -> TimerTask | None:
    try:
        return timer.call_later(np.float64(0.5), print)
    except TimerFull:
        return None
    except HwheelError as error:
        raise SystemExit(str(error)) from error


def look(wheel: TimingWheel) -> int | None:
    picture: WheelSnapshot = wheel.snapshot()
    for bucket in picture.queue:
        print(bucket.level, bucket.expiration_ms, bucket.tasks)
    return wheel.next_expiration_ms


def virtual_time() -> None:
    timer = ManualTimer(on_error="raise")
    task = timer.call_later(30, print, "half a minute")
    timer.advance(29.999)
    timer.advance_to(timer.time() + 0.0005)
    assert task.pending and task.reschedule(5)
    with ManualTimer(on_error=report) as another:
        another.advance(1)


# --- the drop-ins --------------------------------------------------------------------------------------------------

Timer(0.01, print, ["ten milliseconds"], {"flush": True}).start()
scheduler = sched.scheduler()
scheduler.cancel(scheduler.enter(30, 1, print, ("no answer",)))


async def beside_a_loop() -> str:
    with hwheel.asyncio.Timeouts() as timeouts:
        idle = timeouts.call_later(0.5, print, "silent")
        moved: bool = idle.reschedule(0.5)
        idle.cancel()
        print(moved, len(timeouts), idle.when())
    return await asyncio.wait_for(asyncio.sleep(0.01, "slept"), timeout=30)


slept: str = hwheel.asyncio.run(beside_a_loop())


# --- purgatory -----------------------------------------------------------------------------------------------------


class Order(DelayedOperation):
    def __init__(self, item: str, max_wait_ms: int) -> None:
        super().__init__(max_wait_ms)
        self.item = item

    def try_complete(self) -> bool:
        return bool(self.item) and self.force_complete()

    def on_complete(self) -> None:
        print("shipped")


async def wait(timer: BaseTimer) -> int:
    with DelayedOperationPurgatory[Order]("orders", timer) as orders:
        done: bool = orders.try_complete_else_watch(Order("tea", 60_000), ["tea", 5])
        completed: int = orders.check_and_complete("tea")
        waited: int = await orders.wait(["tea"], lambda: 5, timeout=0.5)
        print(done, completed, waited, orders.stats().expired)
        return sum(len(order.item) for order in orders.close())


def answered() -> None:
    with ThreadPoolExecutor() as pool, DelayedFuturePurgatory() as futures:
        print(futures.try_complete_else_watch(30_000, [pool.submit(print)], lambda: print("all answered")).futures)


with SystemTimer("typed", clock=lambda: 0.5, executor="inline", on_error=lambda task, error: None) as timer:
    print(use(timer).lateness.p99)
with ThreadPoolExecutor() as pool, SystemTimer(executor=pool, clock="boottime", fork="keep") as pooled:
    print(add_or_not(pooled))


# --- containers ----------------------------------------------------------------------------------------------------


def remember(timer: BaseTimer) -> "int | None":
    def ended(pairs: "list[tuple[str, int]]") -> None:
        print(dict(pairs))

    seen: ExpiringDict[str, int] = ExpiringDict(30, maxsize=100, refresh=True, on_expire=ended, timer=timer)
    seen["ada"] = 1
    seen.set("bob", 2, ttl=0.5)
    moved: bool = seen.touch("ada", 5) and seen.touch("bob")
    left: float | None = seen.expires_in("ada")
    both: int | str = seen.get("ada", "nobody")
    mapping: MutableMapping[str, int] = seen
    print(moved, left, both, seen.pop("bob", None), seen.popitem()[1] + 1, seen.setdefault("cid", 3), len(mapping))
    for name, count in seen.items():
        print(name.upper(), count + 1)
    return seen.get("ada")


def retry(timer: BaseTimer) -> str:
    retries: DelayQueue[str] = DelayQueue(100, timer=timer)
    key: DelayKey[str] = retries.put("send again", 5)
    moved: bool = retries.reset(key, 1.5)
    next_one = retries.peek()
    if next_one is not None and next_one.item is not None:
        print(next_one.item.upper(), next_one.deadline + 1, next_one.pending, moved, len(retries), retries.full())
    with retries:
        retries.put("at once")
        retries.task_done()
        retries.join()
    left: list[str] = retries.drain()
    retries.shutdown(immediate=True)
    return retries.remove(key) + retries.get(timeout=5) + retries.get_nowait() + left[0]


async def poll(timer: BaseTimer) -> None:
    polls: hwheel.asyncio.DelayQueue[int] = hwheel.asyncio.DelayQueue(timer=timer)
    key: DelayKey[int] = await polls.put(5, 0.5)
    polls.reset(key, 1)
    async for number in polls:
        print(number + 1)
    print(await polls.get() + 1)
    polls.task_done()
    await polls.join()
