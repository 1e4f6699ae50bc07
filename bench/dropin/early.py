"""asyncio.sleep() measured by time.perf_counter(), on loops with and without the wheel: does any sleep end early?

    python bench/dropin/early.py --sleeps 1000000

Sleeps of random length, a thousand at a time, start at different moments of a pass of the loop. The exit status is 1
if a sleep on a loop of hwheel ended earlier than the resolution of ``loop.time()`` allows. uvloop's clock counts whole
milliseconds. The lines of uvloop and zuvloop need these packages.
"""

import argparse
import asyncio
import importlib
import random
import sys
import time
from array import array

import hwheel.asyncio
from hwheel.asyncio import wheel_loop

CONCURRENT = 1000
LONGEST_S = 0.02
WORK_S = 0.000_02  # before a sleep, so that sleeps of one pass start at different times
LOOPS = {  # package -> (class, resolution of its time() in seconds, not below the error of float sums)
    "asyncio": ("SelectorEventLoop", 1e-9),
    "uvloop": ("Loop", 1e-3),
    "zuvloop": ("EventLoop", 1e-9),
}


async def sleep_and_note(early_s: "array[float]") -> None:
    delay_s = random.uniform(0, LONGEST_S)
    begin_s = time.perf_counter()
    while time.perf_counter() < begin_s + WORK_S:
        pass
    begin_s = time.perf_counter()
    await asyncio.sleep(delay_s)
    early_s.append(delay_s - (time.perf_counter() - begin_s))


async def sleep_often(count: int) -> "array[float]":
    """Return by how many seconds each sleep ended early. Negative: late."""
    early_s = array("d")
    while len(early_s) < count:
        await asyncio.gather(*(sleep_and_note(early_s) for _ in range(min(CONCURRENT, count - len(early_s)))))
    return early_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sleeps", type=int, default=20_000)
    count = parser.parse_args().sleeps
    kept = True
    for package, (loop_class, resolution_s) in LOOPS.items():
        try:
            base = getattr(importlib.import_module(package), loop_class)
        except ImportError:
            continue
        for name, factory in {package: base, f"hwheel over {package}": wheel_loop(base)}.items():
            early_s = hwheel.asyncio.run(sleep_often(count), loop_factory=factory)
            early = [one for one in early_s if one > resolution_s]
            print(
                f"{name:20} {len(early_s):,} sleeps, {len(early):,} early by more than {resolution_s * 1e6:g} us; "
                f"the earliest by {max(early_s) * 1e6:,.3f} us",
                flush=True,
            )
            kept = kept and (name == package or not early)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
