"""Twisted's delayed calls on the wheel, beside its own reactors, in turns.

    .venv/bin/python -m pip install twisted
    .venv/bin/python -P bench/dropin/twisted_calls.py

Microseconds of processor time per operation, with 100,000 calls pending: add a call, move it to an earlier time, move
it to a later time, and cancel it.
"""

import asyncio
import gc
import random
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.epollreactor import EPollReactor

from hwheel.twisted import WheelReactor

PENDING = 100_000
ROUNDS = 3
STEPS = ("callLater", "reset, sooner", "reset, later", "cancel")


def timed(operation: Callable[[Any], object], items: Iterable[Any], count: int) -> float:
    begin = time.process_time()
    for item in items:
        operation(item)
    return (time.process_time() - begin) / count * 1e6


def life(reactor: Any) -> list[float]:
    chance = random.Random(1)
    delays = [600 + 600 * chance.random() for _ in range(PENDING)]
    calls: list[Any] = []
    add = timed(lambda delay: calls.append(reactor.callLater(delay, int)), delays, PENDING)
    begin = time.process_time()
    reactor.timeout()  # where Twisted's reactor inserts new calls
    add += (time.process_time() - begin) / PENDING * 1e6
    moved = chance.sample(calls, PENDING if isinstance(reactor, WheelReactor) else 20)
    sooner = timed(lambda call: call.reset(300), moved, len(moved))
    later = timed(lambda call: call.reset(1200), moved, len(moved))
    return [add, sooner, later, timed(lambda call: call.cancel(), chance.sample(calls, PENDING), PENDING)]


def main() -> None:
    makes: dict[str, Callable[[], Any]] = {
        "on the wheel": WheelReactor,
        "asyncio": lambda: AsyncioSelectorReactor(asyncio.new_event_loop()),
        "epoll": EPollReactor,
    }
    found: dict[str, list[list[float]]] = {name: [] for name in makes}
    for _ in range(ROUNDS):
        for name, make in makes.items():
            gc.collect()
            found[name].append(life(make()))
    print(f"{PENDING:,} calls pending; median (minimum) of {ROUNDS} rounds")
    print(f"{'':16}" + "".join(f"{name:>24}" for name in makes))
    for number, step in enumerate(STEPS):
        columns = [[one[number] for one in rounds] for rounds in found.values()]
        print(f"{step:16}" + "".join(f"{f'{statistics.median(us):,.2f} ({min(us):,.2f})':>24}" for us in columns))


if __name__ == "__main__":
    main()
