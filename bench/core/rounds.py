"""Measures the operations. Implementations take turns in each round, so that a slow moment affects all of them."""

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from core.operations import Life, inputs_of, lives_of
from implementations.base import Implementation, TooSlow
from lib.cell import Cell

SMALL = 20_000  # with fewer timers, a round has several lives, because one would be too short to measure
MOST_LIVES = 20


Turn = tuple[type[Implementation], type[Life], int]


def turns_of(
    implementations: Sequence[type[Implementation]],
    sizes: Iterable[int],
    references: Sequence[tuple[type[Implementation], type[Life]]] = (),
) -> list[Turn]:
    """Return the turns of a round: all lives that the implementations support at these sizes."""
    return [
        (make, life, pending)
        for pending in sizes
        for make, life in [
            *((make, life) for make, life in references if pending <= make.most),
            *((make, life) for make in implementations for life in lives_of(make, pending)),
        ]
    ]


def measure(turns: Sequence[Turn], rounds: int, on_turn: Callable[[str], object] = lambda turn: None) -> list[Cell]:
    """Run rounds of turns.

    Raises:
        WrongWork: An implementation fired the wrong timers.
    """
    cells: dict[tuple[str, str, int], Cell] = {}
    for number in range(rounds):
        for make, life, pending in turns:
            on_turn(f"round {number + 1} of {rounds}: {make.name}, {pending:,} timers")
            ns, checksum = turn(make, life, pending)
            for operation, value in ns.items():
                cell = cells.setdefault(
                    (operation, make.name, pending),
                    Cell(operation, make.name, pending, remark=make.remarks.get(operation, "")),
                )
                cell.ns.append(value)
                cell.checksum = checksum
    return list(cells.values())


def turn(make: type[Implementation], life: type[Life], pending: int) -> tuple[dict[str, float], int]:
    """Run one turn. Return ns per timer of each operation, and the checksum of the fired timers."""
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    checksum = 0
    gc.collect()
    lives = min(MOST_LIVES, max(1, SMALL // pending)) if make.is_quick else 1
    while lives:
        one = life(make, inputs_of(pending))
        try:
            measured = run(one)
            checksum = one.check()
        except TooSlow:
            continue
        finally:
            one.close()
        lives -= 1
        for operation, value in measured.items():
            seconds[operation] += value
            counts[operation] += one.counts[operation]
    return {name: seconds[name] / counts[name] * 1e9 for name in seconds if name not in make.lacks}, checksum


def run(life: Life) -> dict[str, float]:
    """Run all steps, and return the seconds of each operation."""
    seconds = {}
    for operation, method in life.steps:
        work = getattr(life, method)
        if operation is None:
            work()
        else:
            seconds[operation] = timed(work, life.clock(operation))
    return seconds


def timed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds that the call takes."""
    start = clock()
    work()
    return clock() - start
