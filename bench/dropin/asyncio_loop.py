"""hwheel.asyncio beside asyncio's own loop, and uvloop with the wheel beside uvloop.

    python bench/dropin/asyncio_loop.py

The loops take turns in one run. Read the ratios; medians are printed with the minimum and the maximum. The lines of
uvloop need uvloop. --rounds 1 is a quick check.
"""

import argparse
import asyncio
import gc
import platform
import random
import statistics
import time
from collections.abc import Callable

import hwheel.asyncio
from hwheel import __version__
from hwheel.asyncio import EventLoop, Timeouts, wheel_loop

try:
    import uvloop
except ImportError:
    uvloop = None

PENDING = 200_000
PAIRS = 20_000
Factory = Callable[[], asyncio.AbstractEventLoop]


def nothing(*args: object) -> None:
    pass


def show(what: str, stock: list[float], ours: list[float], unit: str, target: str = "") -> None:
    """Times of stock and ours in the same turns."""
    ratios = [theirs / own for theirs, own in zip(stock, ours, strict=True)]
    print(
        f"{what:58} {statistics.median(stock):9.2f} {statistics.median(ours):9.2f} {unit:3}"
        f" {min(ratios):7.2f} {statistics.median(ratios):7.2f} {max(ratios):7.2f}  {target}",
        flush=True,
    )


def pairs_ns(loop: asyncio.AbstractEventLoop) -> float:
    start = time.perf_counter()
    for _ in range(PAIRS):
        loop.call_later(30.0, nothing).cancel()
    return (time.perf_counter() - start) / PAIRS * 1e9


def call_later_and_cancel(name: str, base: Factory, wheel: Factory, rounds: int, target: str) -> None:
    """With 200,000 other timers pending."""
    seeded = random.Random(1)
    delays = [seeded.uniform(100, 200) for _ in range(PENDING)]
    loops = base(), wheel()
    held = [[loop.call_later(delay, nothing) for delay in delays] for loop in loops]
    times = [[pairs_ns(loop) for loop in loops] for _ in range(rounds)]
    del held
    for loop in loops:
        loop.close()
    show(f"call_later + cancel, {PENDING:,} pending, {name}", *map(list, zip(*times, strict=True)), "ns", target)


def push_back(rounds: int) -> None:
    """Postpone a deadline on 10,000 connections: cancel and call_later beside reschedule."""
    loop = asyncio.new_event_loop()
    timeouts = Timeouts(loop)
    stock = [loop.call_later(30.0, nothing) for _ in range(10_000)]
    ours = [timeouts.call_later(30.0, nothing) for _ in range(10_000)]

    def again() -> float:
        start = time.perf_counter()
        for i in range(10_000):
            stock[i].cancel()
            stock[i] = loop.call_later(30.0, nothing)
        return (time.perf_counter() - start) / 10_000 * 1e9

    def reschedule() -> float:
        start = time.perf_counter()
        for i in range(10_000):
            ours[i].reschedule(30.0)
        return (time.perf_counter() - start) / 10_000 * 1e9

    times = [[again(), reschedule()] for _ in range(rounds)]
    timeouts.close()
    loop.close()
    show("push a deadline back: asyncio again, Timeouts", *map(list, zip(*times, strict=True)), "ns")


async def gather(delays: list[float]) -> None:
    await asyncio.gather(*[asyncio.sleep(delay) for delay in delays])


def gather_s(factory: Factory, delays: list[float]) -> float:
    """Measure processor time, which depends less on other processes."""
    gc.collect()
    start = time.process_time()
    hwheel.asyncio.run(gather(delays), loop_factory=factory)
    return time.process_time() - start


def sleeps(name: str, base: Factory, wheel: Factory, rounds: int, target: str) -> None:
    """Measure 100,000 coroutines and tasks with a sleep, from creation to end."""
    seeded = random.Random(2)
    delays = [seeded.random() for _ in range(100_000)]
    times = [[gather_s(base, delays), gather_s(wheel, delays)] for _ in range(rounds)]
    show(f"gather of 100,000 sleep(random()), {name}", *map(list, zip(*times, strict=True)), "s", target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    print(
        f"hwheel {__version__}, {platform.python_implementation()} {platform.python_version()}, "
        f"{platform.machine()}, {rounds} rounds\n"
    )
    print(f"{'':58} {'stock':>9} {'hwheel':>9} {'':3} {'ratio: min':>7} {'median':>4} {'max':>5}")
    kinds: list[tuple[str, Factory, Factory]] = [("asyncio", asyncio.new_event_loop, EventLoop)]
    if uvloop is not None:
        kinds.append(("uvloop", uvloop.new_event_loop, wheel_loop(uvloop.Loop)))
    for name, base, wheel in kinds:
        call_later_and_cancel(name, base, wheel, rounds, "at least 8" if name == "asyncio" else "")
    push_back(rounds)
    for name, base, wheel in kinds:
        sleeps(name, base, wheel, rounds, "at least 1.5" if name == "asyncio" else "")
    gc.disable()
    for name, base, wheel in kinds:
        sleeps(f"{name}, no gc", base, wheel, rounds, "")


if __name__ == "__main__":
    main()
