"""The operations under pytest-benchmark, for a closer look at some of them:

    SIZES=10000,1000000 nox -s release -- -m pytest bench -k 'expire and (hwheel or heapq)'

To compare implementations, use report.py, which measures in turns. pytest-benchmark measures one after the other.
"""

import os
import time
from typing import Any

import pytest

from core.operations import Life, inputs_of
from core.rounds import Turn, turns_of
from implementations import available

SIZES = [int(size) for size in os.environ.get("SIZES", "1000,100000").split(",")]
ROUNDS = 5


def cases() -> list[object]:
    """Return every operation of every implementation at each size."""
    return [
        pytest.param(operation, turn, pending, id=f"{operation}-{make.name}-{pending}")
        for turn in turns_of(available()[0], SIZES)
        for make, life, pending in [turn]
        for operation, _ in life.steps
        if operation is not None and operation not in make.lacks
    ]


@pytest.mark.parametrize(("operation", "turn", "pending"), cases())
def test_operation(benchmark: Any, operation: str, turn: Turn, pending: int) -> None:
    make, life, _ = turn
    lives: list[Life] = []

    def live_up_to_it() -> None:
        """Return a new life after the steps before this one."""
        if lives:
            lives.pop().close()
        lives.append(life(make, inputs_of(pending)))
        for name, method in life.steps:
            if name == operation:
                return
            getattr(lives[-1], method)()

    def step() -> None:
        getattr(lives[-1], next(method for name, method in life.steps if name == operation))()

    if operation.startswith("expire") and make.expiry_clock is time.process_time:
        pytest.skip(f"what {make.name} takes to expire is processor time: see report.py")
    benchmark.group = f"{operation}, {pending:,} timers"
    benchmark.pedantic(step, setup=live_up_to_it, rounds=ROUNDS)
    if benchmark.stats is not None:
        benchmark.extra_info["ns a timer"] = benchmark.stats.stats.median / lives[-1].counts[operation] * 1e9
    lives.pop().close()
