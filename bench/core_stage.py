"""The figures that the core promises, measured in one run: `make bench`.

Each measurement is repeated, in turns with what it is compared to, and the minimum, median and maximum are printed:
on a shared machine the minimum tells what the code costs and the spread tells what the moment cost.
"""

import asyncio
import gc
import platform
import random
import statistics
import sys
import threading
import time
import tracemalloc
from array import array
from collections.abc import Callable

from hwheel import ManualTimer, SystemTimer, TimerTask, __version__

PENDING = 200_000
MANY = 1_000_000
ROUNDS = 7


def nothing(*args: object) -> None:
    pass


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def show(what: str, values: list[float], unit: str, target: str) -> None:
    low, middle, high = min(values), statistics.median(values), max(values)
    print(f"{what:58} {low:9.2f} {middle:9.2f} {high:9.2f} {unit:10} {target}", flush=True)


def pair_against_asyncio() -> None:
    """call_later and cancel with 200,000 pending."""
    pairs = 100_000
    seeded = random.Random(1)
    delays = [seeded.uniform(100, 200) for _ in range(PENDING)]

    def pairs_of(call_later: Callable[..., object]) -> Callable[[], None]:
        def work() -> None:
            for _ in range(pairs):
                call_later(30.0, nothing).cancel()  # type: ignore[attr-defined]

        return work

    loop = asyncio.new_event_loop()
    with SystemTimer("bench") as timer:
        held = [(timer.call_later(delay, nothing), loop.call_later(delay, nothing)) for delay in delays]
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(seconds(pairs_of(timer.call_later)) / pairs * 1e9)
            theirs.append(seconds(pairs_of(loop.call_later)) / pairs * 1e9)
        del held
    loop.close()
    show("call_later + cancel, 200,000 pending", ours, "ns", "")
    show("the same on asyncio", theirs, "ns", "")
    show("ratio asyncio / hwheel", [b / a for a, b in zip(ours, theirs, strict=True)], "times", "at least 10")


def bulk(wheel_size: int) -> None:
    """A million random timers over 100 s: added, then taken in one poll."""
    seeded = random.Random(2)
    delays = array("q", [seeded.randrange(100_000) for _ in range(MANY)])
    by_time = array("q", sorted(range(MANY), key=delays.__getitem__))
    add, expire = [], []
    for _ in range(ROUNDS):
        now = 0
        fired: list[array[int]] = []
        with SystemTimer(
            "bench", wheel_size=wheel_size, clock=lambda: now, reaper=False, executor="inline"
        ) as timer:
            add.append(seconds(lambda: timer.call_many(delays, fired.append)) / MANY * 1e9)
            now = 100_000
            expire.append(seconds(lambda: timer.advance_clock(0)) / MANY * 1e9)
        assert sum(fired, array("q")) == by_time, "not everything fired in order"
    show(f"bulk add, {MANY:,}, wheel size {wheel_size}", add, "ns a timer", "at most 20")
    show(f"bulk expiry in order, tick 1, wheel size {wheel_size}, 100 s", expire, "ns a timer", "at most 100 at 20")


def memory() -> None:
    """A pending TimerTask without its callback: what the interpreter says, and what was allocated."""
    timer = ManualTimer()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tasks = [timer.call_later(1 + i / 100, nothing) for i in range(100_000)]
    held = tracemalloc.get_traced_memory()[0] - before - sys.getsizeof(tasks)
    tracemalloc.stop()
    show("a pending TimerTask, sys.getsizeof", [sys.getsizeof(TimerTask(1))], "bytes", "at most 128")
    show("a pending TimerTask, allocated (with its share of buckets)", [held / len(tasks)], "bytes", "")
    timer.close()


def collector() -> None:
    """gc.collect() with a million pending against none."""
    gc.collect()
    without = [seconds(gc.collect) * 1e3 for _ in range(ROUNDS)]
    timer = ManualTimer()
    for i in range(MANY):
        timer.call_later(1000 + i / 1000, nothing, i)
    with_million = [seconds(gc.collect) * 1e3 for _ in range(ROUNDS)]
    timer.close()
    show("gc.collect(), nothing pending", without, "ms", "")
    show("gc.collect(), a million pending", with_million, "ms", "")
    show("ratio", [statistics.median(with_million) / statistics.median(without)], "times", "at most 1.2")


def pause() -> None:
    """How long one add takes while a million entries of one bucket cascade in the reaper."""
    seeded = random.Random(3)
    now = 0
    timer = SystemTimer("bench", wheel_size=1024, clock=lambda: now, reaper=False, executor="inline")
    # All of them in one bucket of level 2: more than 1024 ms away, within one bucket's 1024 ms.
    timer.call_many(array("q", [2048 + seeded.randrange(1024) for _ in range(MANY)]), nothing)
    now = 2048
    cascade = threading.Thread(target=timer.advance_clock, args=(0,))
    times = []
    before = timer.stats().cascaded
    cascade.start()
    while cascade.is_alive():
        start = time.perf_counter()
        timer.call_later(3600, nothing)
        times.append((time.perf_counter() - start) * 1e6)
    cascade.join()
    moved = timer.stats().cascaded - before
    timer.close()
    times.sort()
    print(f"\n{len(times):,} adds while {moved:,} entries cascaded, us: p50 {times[len(times) // 2]:.1f}, "
          f"p99 {times[len(times) * 99 // 100]:.1f}, p99.9 {times[len(times) * 999 // 1000]:.1f}, max {times[-1]:.1f}")


def main() -> None:
    print(f"hwheel {__version__}, {platform.python_implementation()} {platform.python_version()}, "
          f"{platform.machine()}, {ROUNDS} rounds\n")
    print(f"{'':58} {'min':>9} {'median':>9} {'max':>9}")
    pair_against_asyncio()
    bulk(20)
    bulk(256)
    memory()
    collector()
    pause()


if __name__ == "__main__":
    main()
