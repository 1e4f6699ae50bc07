"""hwheel.asyncio beside asyncio's own loop, and uvloop and zuvloop with the wheel beside themselves.

    python bench/dropin/asyncio_loop.py

The loops run, and take turns. Times are processor times, without the garbage collector, and then with it. Read the
ratios; medians are printed with the minimum and the maximum. The lines of uvloop and zuvloop need these packages. A
round takes 30 s.
"""

import argparse
import asyncio
import gc
import importlib
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator

import hwheel.asyncio
from hwheel import __version__
from hwheel.asyncio import Timeouts, wheel_loop

LOOPS = {"asyncio": "SelectorEventLoop", "uvloop": "Loop", "zuvloop": "EventLoop"}  # package -> class
PENDING = (0, 200_000)
PAIRS = 500_000
PAIR_DELAY_S = 10_000.0
CONNECTIONS = 10_000
BURST = 1000  # operations in each pass of a loop
Factory = Callable[[], asyncio.AbstractEventLoop]


def nothing(*args: object) -> None:
    pass


def show(what: str, stock: list[float], ours: list[float], unit: str) -> None:
    """Print the times of stock and ours in the same turns."""
    ratios = [theirs / own for theirs, own in zip(stock, ours, strict=True)]
    print(
        f"{what:62} {statistics.median(stock):9.2f} {statistics.median(ours):9.2f} {unit:3}"
        f" {min(ratios):7.2f} {statistics.median(ratios):7.2f} {max(ratios):7.2f}",
        flush=True,
    )


def drive(loop: asyncio.AbstractEventLoop, bursts: Iterator[None], count: int) -> float:
    """Run a burst in each pass of a running loop. Return ns of processor time per operation."""

    def one_pass() -> None:
        if next(bursts, True) is True:
            loop.stop()
        else:
            loop.call_soon(one_pass)

    loop.call_soon(one_pass)
    start = time.process_time()
    loop.run_forever()
    return (time.process_time() - start) / count * 1e9


def pairs(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    for _ in range(PAIRS // BURST):
        for _ in range(BURST):
            loop.call_later(PAIR_DELAY_S, nothing).cancel()
        yield


def call_later_and_cancel(name: str, base: Factory, wheel: Factory, pending: int, rounds: int) -> None:
    """With other timers pending, and so many pairs that asyncio removes cancelled handles twice."""
    seeded = random.Random(1)
    delays = [seeded.uniform(0.5, 1.5) * PAIR_DELAY_S for _ in range(pending)]
    loops = base(), wheel()
    held = [[loop.call_later(delay, nothing) for delay in delays] for loop in loops]
    times = [[drive(loop, pairs(loop), PAIRS) for loop in loops] for _ in range(rounds)]
    del held
    for loop in loops:
        loop.close()
    show(f"call_later + cancel, {pending:,} pending, {name}", *map(list, zip(*times, strict=True)), "ns")


def push_back(name: str, rounds: int) -> None:
    """Postpone a deadline on 10,000 connections: cancel and call_later beside reschedule."""
    loop = asyncio.new_event_loop()
    timeouts = Timeouts(loop)
    stock = [loop.call_later(30.0, nothing) for _ in range(CONNECTIONS)]
    ours = [timeouts.call_later(30.0, nothing) for _ in range(CONNECTIONS)]

    def again() -> Iterator[None]:
        for start in range(0, CONNECTIONS, BURST):
            for i in range(start, start + BURST):
                stock[i].cancel()
                stock[i] = loop.call_later(30.0, nothing)
            yield

    def reschedule() -> Iterator[None]:
        for start in range(0, CONNECTIONS, BURST):
            for i in range(start, start + BURST):
                ours[i].reschedule(30.0)
            yield

    times = [[drive(loop, way(), CONNECTIONS) for way in (again, reschedule)] for _ in range(rounds)]
    timeouts.close()
    loop.close()
    show(f"push a deadline back: asyncio again, Timeouts, {name}", *map(list, zip(*times, strict=True)), "ns")


async def gather(delays: list[float]) -> None:
    await asyncio.gather(*[asyncio.sleep(delay) for delay in delays])


def gather_s(factory: Factory, delays: list[float]) -> float:
    """Measure processor time, which depends less on other processes."""
    gc.collect()
    start = time.process_time()
    hwheel.asyncio.run(gather(delays), loop_factory=factory)
    return time.process_time() - start


def sleeps(name: str, base: Factory, wheel: Factory, rounds: int) -> None:
    """Measure 100,000 coroutines and tasks with a sleep, from creation to end."""
    seeded = random.Random(2)
    delays = [seeded.random() for _ in range(100_000)]
    times = [[gather_s(base, delays), gather_s(wheel, delays)] for _ in range(rounds)]
    show(f"gather of 100,000 sleep(random()), {name}", *map(list, zip(*times, strict=True)), "s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    print(
        f"hwheel {__version__}, {platform.python_implementation()} {platform.python_version()}, "
        f"{platform.machine()}, {rounds} rounds\n"
    )
    print(f"{'':62} {'stock':>9} {'hwheel':>9} {'':3} {'ratio: min':>7} {'median':>4} {'max':>5}")
    kinds: list[tuple[str, Factory, Factory]] = []
    for package, loop_class in LOOPS.items():
        try:
            base = getattr(importlib.import_module(package), loop_class)
        except ImportError:
            continue
        kinds.append((package, base, wheel_loop(base)))
    for collector in ("no gc", "gc"):
        gc.collect()
        if collector == "no gc":
            gc.disable()
        else:
            gc.enable()
        for name, base, wheel in kinds:
            for pending in PENDING:
                call_later_and_cancel(f"{name}, {collector}", base, wheel, pending, rounds)
        push_back(collector, rounds)
        for name, base, wheel in kinds:
            sleeps(f"{name}, {collector}", base, wheel, rounds)


if __name__ == "__main__":
    main()
