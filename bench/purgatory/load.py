"""How many operations a second a purgatory keeps up with, beside asyncio's and threading's conditions.

    python bench/purgatory/load.py                      # raises the rate of each until it falls behind
    python bench/purgatory/load.py --check              # operations are found by checking a key
    python bench/purgatory/load.py --engine purgatory --rate 20000      # one run
    python bench/purgatory/load.py --cost               # one operation after the other, in one thread, with no waiting

Each run has a process of its own. It keeps up if its last event was late by less than a twentieth of the run, and no
more operations expired than the schedule says, give or take two in a hundred. See shape.py and engines.py.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hwheel import ManualTimer
from hwheel.purgatory import DelayedOperationPurgatory

sys.path.append(str(Path(__file__).parents[1]))

from lib.machine import load_average, machine
from purgatory.engines import ENGINES, Watched
from purgatory.shape import Shape, schedule

STEP = 1.25


def run(engine: str, rate: float, seconds: float, check: bool, shape: Shape) -> dict[str, Any]:
    """One run, in this process."""
    plan = schedule(shape, rate, seconds)
    gc.collect()
    gc.freeze()  # the plan is nobody's memory
    count = len(plan.keys)
    before_kb, cpu_before = _forget_peak_kb(), time.process_time()
    outcome = ENGINES[engine](plan, shape.timeout_ms, check)
    cpu_s = time.process_time() - cpu_before
    if outcome.completed + outcome.expired != count:
        raise SystemExit(f"{engine}: of {count} operations {outcome.completed} completed, {outcome.expired} expired")
    more_expired = outcome.expired - plan.expected_to_expire
    return {
        "engine": engine,
        "rate": rate,
        "operations": count,
        "lag_s": round(outcome.lag_s, 4),
        "completed": outcome.completed,
        "expired": outcome.expired,
        "expected_to_expire": plan.expected_to_expire,
        "cpu_us": round(cpu_s / count * 1e6, 2),
        "most_in_flight": outcome.most_in_flight,
        "memory_mb": round((_peak_kb() - before_kb) / 1024, 1),
        "keeps_up": outcome.lag_s < seconds / 20 and more_expired <= count / 50,
    }


def _forget_peak_kb() -> int:
    """From now on the peak of resident memory is counted anew (Linux). Returns what there is."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak_kb()


def _peak_kb() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def cost_us(count: int = 50_000) -> float:
    """An operation that is made, watched for three keys, completed and purged, in microseconds of processor time."""
    keys = ("key1", "key2", "key3")
    with DelayedOperationPurgatory[Watched]("cost", ManualTimer()) as purgatory:
        start = time.thread_time()
        for _ in range(count):
            operation = Watched(200, [])
            purgatory.try_complete_else_watch(operation, keys)
            operation.force_complete()
        return (time.thread_time() - start) / count * 1e6


def run_apart(options: argparse.Namespace, engine: str, rate: float) -> dict[str, Any]:
    """One run, in a process of its own."""
    command = [sys.executable, *(["-P"] if sys.flags.safe_path else []), os.path.abspath(__file__), "--engine", engine]
    for name in ("seconds", "p50", "p75", "timeout"):
        command += [f"--{name}", str(getattr(options, name))]
    command += ["--rate", str(rate), *(["--check"] if options.check else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def highest_rate(options: argparse.Namespace, engine: str, start: float) -> dict[str, Any]:
    """The last run that kept up, while the rate is raised by a quarter each time. Each rate has two chances."""
    best: dict[str, Any] | None = None
    rate = start
    while True:
        result = run_apart(options, engine, rate)
        if not result["keeps_up"]:
            result = run_apart(options, engine, rate)
        print(json.dumps(result), file=sys.stderr)
        if result["keeps_up"]:
            best = result
            rate *= STEP
        elif best is not None:
            return best
        else:
            rate /= STEP * STEP


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=ENGINES, help="one engine, with --rate: one run")
    parser.add_argument("--rate", type=float, help="operations a second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--common-rate", type=float, default=1000, help="where CPU an operation is compared")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run")
    parser.add_argument("--p50", type=float, default=20.0, help="median time to completion, ms")
    parser.add_argument("--p75", type=float, default=60.0, help="75th percentile of it, ms")
    parser.add_argument("--timeout", type=int, default=200, help="ms")
    parser.add_argument("--check", action="store_true", help="complete by check_and_complete(key), not directly")
    parser.add_argument("--cost", action="store_true", help="the cost of an operation by itself")
    options = parser.parse_args()
    if options.cost:
        costs = sorted(cost_us() for _ in range(7))
        print(f"{costs[0]:.2f} / {costs[3]:.2f} / {costs[6]:.2f} us an operation, lowest / median / highest of seven")
        return
    options.start = {"purgatory": 100_000.0, "asyncio": 8_000.0, "threading": 4_000.0}
    shape = Shape(options.p50, options.p75, options.timeout)
    if options.rate is not None:
        print(json.dumps(run(options.engine or "purgatory", options.rate, options.seconds, options.check, shape)))
        return
    engines = [options.engine] if options.engine else [*ENGINES]
    print(json.dumps({"machine": machine(), "load": load_average()}, default=str))
    rounds = [
        {engine: highest_rate(options, engine, options.start[engine]) for engine in engines}
        for _ in range(options.rounds)
    ]
    common = {engine: run_apart(options, engine, options.common_rate) for engine in engines}
    print(
        f"{'':10} {'rate kept up with, op/s':>26} {'CPU/op':>8} {'in flight':>10} {'memory':>8}   CPU/op at "
        f"{options.common_rate:,.0f} op/s"
    )
    for engine in engines:
        runs = sorted((round_[engine] for round_ in rounds), key=lambda result: result["rate"])
        middle = runs[len(runs) // 2]
        spread = f"{runs[0]['rate']:,.0f} / {middle['rate']:,.0f} / {runs[-1]['rate']:,.0f}"
        print(
            f"{engine:10} {spread:>26} {middle['cpu_us']:5.1f} us {middle['most_in_flight']:10,} "
            f"{middle['memory_mb']:5.1f} MB   {common[engine]['cpu_us']:5.1f} us"
        )
    if "purgatory" in engines:
        for engine in engines[1:]:
            ratios = [round_["purgatory"]["rate"] / round_[engine]["rate"] for round_ in rounds]
            print(f"the purgatory's rate is {statistics.median(ratios):.1f} times that of {engine}")


if __name__ == "__main__":
    main()
