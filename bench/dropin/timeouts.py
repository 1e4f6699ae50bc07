"""timeout() and wait_for() of asyncio and of hwheel.asyncio, on stock loops and on loops with timers on the wheel.

    python bench/dropin/timeouts.py

All variants take turns in one process, with 10,000 other timers pending on each loop. The table has medians, and each
ratio is that of the medians to asyncio's function on asyncio's loop. The lines of uvloop need uvloop. --rounds 1 is a
quick check.
"""

import argparse
import asyncio
import gc
import platform
import statistics
import time
from collections.abc import Awaitable, Callable

import hwheel.asyncio
from hwheel import __version__
from hwheel.asyncio import EventLoop, wheel_loop

try:
    import uvloop
except ImportError:
    uvloop = None

PENDING = 10_000
REPEATS = 20_000
Step = Callable[[int], Awaitable[None]]


class Empty:
    """The least that `async with` costs with a class written in Python."""

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *exc_info: object) -> None:
        pass


async def empty_blocks(repeats: int) -> None:
    for _ in range(repeats):
        async with Empty():
            pass


def timeout_blocks(functions: object) -> Step:
    async def run(repeats: int) -> None:
        timeout = functions.timeout
        for _ in range(repeats):
            async with timeout(10):
                pass

    return run


def waits_for_a_future(functions: object) -> Step:
    async def run(repeats: int) -> None:
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        wait_for = functions.wait_for
        for _ in range(repeats):
            await wait_for(done, 10)

    return run


def waits_for_a_coroutine(functions: object) -> Step:
    async def run(repeats: int) -> None:
        wait_for, sleep = functions.wait_for, asyncio.sleep
        for _ in range(repeats):
            await wait_for(sleep(0), 10)

    return run


STEPS = {
    "async with timeout(10): pass": timeout_blocks,
    "await wait_for(a future that is done, 10)": waits_for_a_future,
    "await wait_for(sleep(0), 10)": waits_for_a_coroutine,
}


def nothing() -> None:
    pass


def measured_ns(loop: asyncio.AbstractEventLoop, step: Step) -> float:
    gc.collect()
    start = time.perf_counter()
    loop.run_until_complete(step(REPEATS))
    return (time.perf_counter() - start) / REPEATS * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    loops = {"asyncio": asyncio.new_event_loop(), "hwheel": EventLoop()}
    if uvloop is not None:
        loops |= {"uvloop": uvloop.new_event_loop(), "hwheel over uvloop": wheel_loop(uvloop.Loop)()}
    held = [loop.call_later(3600 + i / 100, nothing) for loop in loops.values() for i in range(PENDING)]
    modules = {"asyncio": asyncio, "hwheel.asyncio": hwheel.asyncio}
    cases = {
        (what, module, loop): step(modules[module])
        for what, step in STEPS.items()
        for module in modules
        for loop in loops
    }
    times: dict[tuple[str, str, str], list[float]] = {case: [] for case in cases}
    empty = []
    for _ in range(rounds):
        empty.append(measured_ns(loops["asyncio"], empty_blocks))
        for case, step in cases.items():
            times[case].append(measured_ns(loops[case[2]], step))
    print(f"hwheel {__version__}, {platform.python_implementation()} {platform.python_version()}, medians of {rounds}")
    print(f"{'an empty async with of a Python class':76} {statistics.median(empty):7.0f} ns")
    for case, values in times.items():
        what, module, loop = case
        median = statistics.median(values)
        ratio = statistics.median(times[what, "asyncio", "asyncio"]) / median
        print(f"{what:42} {module:14} on {loop:18} {median:7.0f} ns {ratio:6.1f} times as fast", flush=True)
    for handle in held:
        handle.cancel()
    for loop in loops.values():
        loop.close()


if __name__ == "__main__":
    main()
