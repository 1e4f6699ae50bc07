"""Mistakes: type checkers must refuse every line that ends in `# error`, and no other (test_types.py). Never run."""

import asyncio
from array import array

import hwheel.asyncio
from hwheel import DelayQueue, ExpiringDict, ManualTimer, SystemTimer, TimerBatch, TimerTask, TimingWheel
from hwheel.types import BaseTimer, DelayKey
from hwheel.asyncio import Timeouts
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory


def greet(name: str) -> None:
    print(name)


def show(indices: "array[int]") -> None:
    print(list(indices))


# --- making a timer ------------------------------------------------------------------------------------------------

SystemTimer(executor="inline", clock="boottime", fork="keep", reaper=False)
SystemTimer(executor="inlin")  # error
SystemTimer(clock="monotonous")  # error
SystemTimer(clock="manual")  # error
SystemTimer(clock=5)  # error
SystemTimer(fork="dorp")  # error
SystemTimer(tick_ms=0.5)  # error
SystemTimer(tick=5)  # error
SystemTimer(on_error="raise")  # error
SystemTimer("name", 1)  # error
ManualTimer(on_error="raise")
ManualTimer(on_error="rise")  # error
ManualTimer(executor="inline")  # error


# --- using one -----------------------------------------------------------------------------------------------------


def use(timer: SystemTimer) -> None:
    timer.call_later(0.1, greet, "Ada")
    timer.cal_later(0.1, greet, "Ada")  # error
    timer.call_later("0.1", greet, "Ada")  # error
    timer.call_later(0.1, greet)  # error
    timer.call_later(0.1, greet, 5)  # error
    timer.call_later(0.1, "greet")  # error
    timer.call_later(delay_ms=100, callback=greet)  # error
    timer.call_at(None, greet, "Ada")  # error
    timer.call_every(1, greet, "Ada", missed_ticks="skip")
    timer.call_every(1, greet, "Ada", missed_ticks="skipped")  # error
    timer.call_many([1, 2, 3], show)  # error
    timer.call_many(array("q", [1]), greet)  # error
    timer.add(greet)  # error
    timer.size  # error
    timer.closed = True  # error
    timer.time().ms  # error
    timer.stats().addded  # error
    timer.stats().lateness.p95  # error
    timer.advance(1)  # error
    timer.advance_clock("1")  # error
    timer.pending()[0].run_at  # error
    timer.close(True)  # error
    timer.close(timeout="1")  # error
    timer.close()[0].callback
    timer.close()[0].foo  # error
    timer.close()[0].deadline_ms  # error
    with timer as same:
        same.call_soon(greet, "Ada")  # error
    timer._no_such_thing()  # error


def move(timer: ManualTimer) -> None:
    timer.advance(1)
    timer.advance("1")  # error
    timer.advance(ms=5)  # error
    timer.advance_to("noon")  # error
    timer.advance_clock(5)  # error


def hold(task: TimerTask, batch: TimerBatch) -> None:
    task.reschedule(0.005)
    task.reschedule(delay_ms=5)  # error
    task.reschedule("soon")  # error
    task.canceled  # error
    task.pending()  # error
    task.delay_ms = 5  # error
    batch.cancel("all")  # error
    batch.extend([5, 6])  # error
    batch.extend(array("q", [5]), 5)  # error
    batch.indices().tolist().mean  # error
    TimerTask("soon")  # error
    TimerTask(5, 5)  # error


def look(wheel: TimingWheel) -> None:
    wheel.add(TimerTask(5), 10)
    wheel.add(TimerTask(5), "10")  # error
    wheel.advance(5)  # error
    wheel.snapshot().queue[0].expiration  # error
    wheel.poll(5)[0].foo  # error


def take(timer: BaseTimer) -> None:
    timer.call_later(1, greet, "Ada")
    timer.reaper  # error


# --- the faces -----------------------------------------------------------------------------------------------------


class Order(DelayedOperation):
    def try_complete(self) -> bool:
        return self.force_complete()

    def on_complete(self) -> str:  # error
        return "done"


async def wait(orders: DelayedOperationPurgatory[Order]) -> None:
    orders.try_complete_else_watch(Order(5), ["tea"])
    orders.try_complete_else_watch(Order(5), 5)  # error
    orders.try_complete_else_watch(TimerTask(5), ["tea"])  # error
    orders.close()[0].foo  # error
    await orders.wait(["tea"], lambda: True, "5")  # error


def beside(loop: asyncio.AbstractEventLoop) -> None:
    with Timeouts(loop) as timeouts:
        timeouts.call_later(1, greet, "Ada").reschedule(2)
        timeouts.call_later(1, greet, 5)  # error
        timeouts.call_later(1, greet, "Ada").reschedule("2")  # error
        timeouts.cal_later(1, greet, "Ada")  # error
    Timeouts("loop")  # error


# --- containers ----------------------------------------------------------------------------------------------------


def remember(seen: ExpiringDict[str, int], timer: BaseTimer) -> None:
    seen["ada"] = 1
    seen["ada"] = "tea"  # error
    seen[5] = 1  # error
    seen.set("ada", 1, ttl=5)
    seen.set("ada", 1, 5)  # error
    seen.set("ada", 1, ttl="5")  # error
    seen.touch("ada", "5")  # error
    seen.expires_in("ada") + 1  # error
    seen.get("ada").bit_length()  # error
    seen.expire()  # error
    ExpiringDict[str, int]()  # error
    ExpiringDict[str, int]("5")  # error
    ExpiringDict[str, int](5, 10)  # error
    ExpiringDict[str, int](5, maxsize="10")  # error
    ExpiringDict[str, int](5, on_expire=greet)  # error
    ExpiringDict[str, int](5, timer=5)  # error


async def poll(retries: DelayQueue[str], polls: hwheel.asyncio.DelayQueue[int], key: DelayKey[str]) -> None:
    retries.put()  # error
    retries.put(5, 1)  # error
    retries.put("send again", "1")  # error
    retries.reset("send again", 1)  # error
    retries.remove("send again")  # error
    retries.peek().item  # error
    key.item.upper()  # error
    retries.get(timeout="5")  # error
    polls.put_nowait("5", 1)  # error
    (await polls.get()).upper()  # error
    polls.get(timeout=5)  # error
    DelayQueue[str]("5")  # error
