"""Three ways to wait for a condition, but at most so long: the purgatory, asyncio's and threading's.

Each gets the same schedule and does the same for it: an operation that arrives is entered under its keys and waits; the
event that completes it makes its condition true and wakes it, by itself (`check=False`, as Kafka's program does) or by
looking at all that waits under one of its keys (`check=True`). Operations that nothing completes time out.

The peers get the fastest arrangement that was found for them: a Condition for each operation, so that no notify wakes
anybody in vain, and a dict of sets to find them under their keys. With a Condition for each key, every notify would
wake all who wait for that key, and nobody could wait for three of them at once without three tasks or threads.
"""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
from purgatory.shape import Schedule


class Outcome(NamedTuple):
    lag_s: float  # how late the last event was
    completed: int
    expired: int
    most_in_flight: int


class Watched(DelayedOperation):
    """The purgatory's operation."""

    def __init__(self, delay_ms: int, outcomes: list[str]) -> None:
        super().__init__(delay_ms)
        self.outcomes = outcomes
        self.ready = False

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.outcomes.append("completed" if self.ready else "expired")


def run_purgatory(schedule: Schedule, timeout_ms: int, check: bool) -> Outcome:
    outcomes: list[str] = []
    operations: list[Watched | None] = [None] * len(schedule.keys)
    most = 0
    with DelayedOperationPurgatory[Watched]("load") as purgatory:
        start = time.perf_counter()
        for due, number in zip(schedule.times, schedule.numbers, strict=True):
            while (early := due - (time.perf_counter() - start)) > 0:
                time.sleep(early)
            if number >= 0:
                operation = operations[number] = Watched(timeout_ms, outcomes)
                purgatory.try_complete_else_watch(operation, schedule.keys[number])
                continue
            most = max(most, purgatory.num_delayed)
            completed, operations[~number] = operations[~number], None
            if completed is None or completed.is_completed:
                continue
            completed.ready = True
            if check:
                purgatory.check_and_complete(schedule.keys[~number][0])
            else:
                completed.force_complete()
        lag_s = time.perf_counter() - start - schedule.times[-1]
        _await(lambda: len(outcomes) == len(schedule.keys))
    return Outcome(lag_s, outcomes.count("completed"), outcomes.count("expired"), most)


def run_asyncio(schedule: Schedule, timeout_ms: int, check: bool) -> Outcome:
    return asyncio.run(_run_asyncio(schedule, timeout_ms / 1000, check))


async def _run_asyncio(schedule: Schedule, timeout: float, check: bool) -> Outcome:
    outcomes: list[str] = []
    ready = [False] * len(schedule.keys)
    conditions: dict[int, asyncio.Condition] = {}
    watching: defaultdict[str, set[int]] = defaultdict(set)
    tasks: set[asyncio.Task[None]] = set()
    most = 0

    async def operation(number: int) -> None:
        condition = conditions[number] = asyncio.Condition()
        for key in schedule.keys[number]:
            watching[key].add(number)
        try:
            async with condition:
                await asyncio.wait_for(condition.wait_for(lambda: ready[number]), timeout)
            outcomes.append("completed")
        except TimeoutError:
            outcomes.append("expired")
        finally:
            conditions.pop(number, None)
            for key in schedule.keys[number]:
                watching[key].discard(number)

    async def wake(number: int) -> None:
        condition = conditions.pop(number, None)
        if condition is not None:
            async with condition:
                condition.notify()

    start = time.perf_counter()
    for due, number in zip(schedule.times, schedule.numbers, strict=True):
        while (early := due - (time.perf_counter() - start)) > 0:
            await asyncio.sleep(early)
        if number >= 0:
            task = asyncio.create_task(operation(number))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            if len(tasks) % 64 == 0:
                await asyncio.sleep(0)  # late as the load may be, those who wait get their turns
            continue
        most = max(most, len(conditions))
        ready[~number] = True
        if check:
            for other in [*watching[schedule.keys[~number][0]]]:
                if ready[other] and other in conditions:
                    await wake(other)
        else:
            await wake(~number)
    lag_s = time.perf_counter() - start - schedule.times[-1]
    while tasks:
        await asyncio.sleep(0.01)
    return Outcome(lag_s, outcomes.count("completed"), outcomes.count("expired"), most)


def run_threading(schedule: Schedule, timeout_ms: int, check: bool) -> Outcome:
    """The threads are reused, which is kind to it."""
    timeout = timeout_ms / 1000
    outcomes: list[str] = []
    ready = [False] * len(schedule.keys)
    conditions: dict[int, threading.Condition] = {}
    watching: defaultdict[str, set[int]] = defaultdict(set)
    most = 0

    def operation(number: int, condition: threading.Condition) -> None:
        with condition:
            held = condition.wait_for(lambda: ready[number], timeout)
        outcomes.append("completed" if held else "expired")
        conditions.pop(number, None)
        for key in schedule.keys[number]:
            watching[key].discard(number)

    def wake(number: int) -> None:
        condition = conditions.pop(number, None)
        if condition is not None:
            with condition:
                condition.notify()

    with ThreadPoolExecutor(4000) as threads:
        start = time.perf_counter()
        for due, number in zip(schedule.times, schedule.numbers, strict=True):
            while (early := due - (time.perf_counter() - start)) > 0:
                time.sleep(early)
            if number >= 0:
                condition = conditions[number] = threading.Condition()
                for key in schedule.keys[number]:
                    watching[key].add(number)
                threads.submit(operation, number, condition)
                continue
            most = max(most, len(conditions))
            ready[~number] = True
            if check:
                for other in [*watching[schedule.keys[~number][0]]]:
                    if ready[other] and other in conditions:
                        wake(other)
            else:
                wake(~number)
        lag_s = time.perf_counter() - start - schedule.times[-1]
    return Outcome(lag_s, outcomes.count("completed"), outcomes.count("expired"), most)


def _await(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.001)


ENGINES: dict[str, Callable[[Schedule, int, bool], Outcome]] = {
    "purgatory": run_purgatory,
    "asyncio": run_asyncio,
    "threading": run_threading,
}
