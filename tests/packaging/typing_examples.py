"""Correct uses that mypy and pyright must accept, with the types of their results (test_types.py). Never run.

typing_mistakes.py has more correct lines.
"""

import asyncio
from array import array
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import hwheel.asyncio
from hwheel import DelayQueue, ExpiringDict, ManualTimer, SystemTimer, Timer, TimerBatch, TimerTask, sched
from hwheel.purgatory import DelayedFuturePurgatory, DelayedOperation, DelayedOperationPurgatory
from hwheel.types import BaseTimer, DelayKey, TimerStats


class Ping(TimerTask[float]):
    def __init__(self, host: str) -> None:
        super().__init__(5_000)
        self.host = host

    def run(self) -> float:
        return 0.5


def show(indices: "array[int]") -> None:
    print(list(indices))


def report(source: object, error: BaseException) -> None:
    print(source, error)


def use(timer: BaseTimer) -> TimerStats:
    ping: Ping = timer.add(Ping("localhost"))
    repeating: TimerTask = timer.call_every(1, print, "tick", missed_ticks="burst")
    batch: TimerBatch = timer.call_many(array("q", [1, 2, 3]), show)
    kept: bool = repeating.reschedule(0.01) and ping.pending
    timer.call_many(np.array([1, 2, 3]), show).cancel(np.array([0]))
    new: range = batch.extend(array("q", [4]), show)
    print(kept, new, batch.cancel([1]), len(timer), timer.call_at(timer.time() + 1, print))
    for left in timer.close(run_pending=True, timeout=1):
        print(left.indices() if isinstance(left, TimerBatch) else left.args)
    return timer.stats()


async def results(timer: BaseTimer) -> float:
    longest: int = await timer.call_later(0.01, max, 1, 2)
    named: TimerTask[str] = timer.group().call_at(timer.time() + 1, str, 5)
    every: str = await timer.call_every(0.01, str.upper, "tick", max_lateness=1)
    added: dict[str, int] = await timer.add(TimerTask(5, lambda: {"a": 1}))
    print(longest + 1, (await named).upper(), every.upper(), added["a"])
    return await timer.add(Ping("localhost")) + named.remaining() + (named.deadline or 0)


async def beside_a_loop() -> str:
    with hwheel.asyncio.Timeouts() as timeouts:
        idle = timeouts.call_later(0.5, print, "silent")
        moved: bool = idle.reschedule(0.5)
        print(moved, len(timeouts), idle.when())
    return await asyncio.wait_for(asyncio.sleep(0.01, "slept"), timeout=30)


def create() -> None:
    Timer(0.01, print, ["ten milliseconds"], {"flush": True}).start()
    scheduler = sched.scheduler()
    scheduler.cancel(scheduler.enter(30, 1, print, ("no answer",)))
    slept: str = hwheel.asyncio.run(beside_a_loop())
    with ManualTimer(on_error=report) as manual, SystemTimer("a", clock=lambda: 0.5, on_error=lambda task, _: None):
        manual.advance_to(manual.time() + 0.0005)
    with ThreadPoolExecutor() as pool, SystemTimer(executor=pool, clock="boottime") as pooled:
        print(use(pooled).lateness.p99, pooled.call_later(np.float64(0.5), print), slept)


async def wait(orders: DelayedOperationPurgatory[DelayedOperation]) -> None:
    completed: int = orders.check_and_complete("tea")
    waited: int = await orders.wait(["tea"], lambda: 5, timeout=0.5)
    print(completed, waited, orders.stats().expired)
    with ThreadPoolExecutor() as pool, DelayedFuturePurgatory() as futures:
        print(futures.try_complete_else_watch(30_000, [pool.submit(print)], lambda: print("all answered")).futures)


def remember(timer: BaseTimer) -> "int | None":
    def ended(pairs: "list[tuple[str, int]]") -> None:
        print(dict(pairs))

    seen: ExpiringDict[str, int] = ExpiringDict(30, maxsize=100, refresh=True, on_expire=ended, timer=timer)
    left: float | None = seen.expires_in("ada")
    both: int | str = seen.get("ada", "nobody")
    mapping: MutableMapping[str, int] = seen
    print(left, both, seen.pop("bob", None), seen.popitem()[1] + 1, seen.setdefault("cid", 3), len(mapping))
    for name, count in seen.items():
        print(name.upper(), count + 1)
    return seen.get("ada")


async def retry(timer: BaseTimer, polls: hwheel.asyncio.DelayQueue[int]) -> str:
    retries: DelayQueue[str] = DelayQueue(100, timer=timer)
    key: DelayKey[str] = retries.put("send again", 5)
    next_one = retries.peek()
    if retries.reset(key, 1.5) and next_one is not None and next_one.item is not None:
        print(next_one.item.upper(), next_one.deadline + 1, next_one.pending, retries.full())
    with retries:
        retries.put("at once")
        retries.task_done()
        retries.join()
    left: list[str] = retries.drain()
    polls.reset(await polls.put(5, 0.5), 1)
    async for number in polls:
        print(number + 1)
        polls.task_done()
    await polls.join()
    return retries.remove(key) + retries.get(timeout=5) + retries.get_nowait() + left[0]
