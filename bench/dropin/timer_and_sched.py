"""The speed of the drop-ins beside the standard library, in turns in one run.

    python -P bench/dropin/timer_and_sched.py

Prints the time of each operation with the standard library and with hwheel: the minimum and the median of the rounds,
and the ratio of the medians. "at least" is the promise of the project.
"""

import platform
import random
import sched
import statistics
import threading
import time
from collections.abc import Callable

import hwheel
import hwheel.sched

ROUNDS = 11
PENDING = 100_000
FAR_OFF_S = 3600

Round = Callable[[], float]  # seconds per operation


def timed(operation: Callable[[], object], count: int) -> float:
    begin = time.perf_counter()
    operation()
    return (time.perf_counter() - begin) / count


def timer_life(timer_class: type[threading.Timer], count: int) -> Round:
    """Timer(...), start(), cancel()."""

    def operation() -> None:
        for _ in range(count):
            timer = timer_class(FAR_OFF_S, int)
            timer.start()
            timer.cancel()

    return lambda: timed(operation, count)


def timer_start(timer_class: type[threading.Timer], count: int) -> Round:
    """start() and cancel() of existing timers."""

    def one_round() -> float:
        timers = [timer_class(FAR_OFF_S, int) for _ in range(count)]

        def operation() -> None:
            for timer in timers:
                timer.start()
                timer.cancel()

        return timed(operation, count)

    return one_round


def full_scheduler(scheduler_class: type, times: list[float]) -> tuple:
    scheduler = scheduler_class(time.monotonic, time.sleep)
    return scheduler, [scheduler.enterabs(when, 1, int) for when in times]


def sched_cancel(scheduler_class: type, times: list[float], count: int) -> Round:
    """cancel() of random events, with 100,000 pending."""
    scheduler, events = full_scheduler(scheduler_class, times)
    order = random.Random(2)

    def one_round() -> float:
        victims = order.sample(range(len(events)), count)
        chosen = [events[i] for i in victims]

        def operation() -> None:
            for event in chosen:
                scheduler.cancel(event)

        seconds = timed(operation, count)
        for i in victims:
            events[i] = scheduler.enterabs(times[i], 1, int)
        return seconds

    return one_round


def sched_enter(scheduler_class: type, times: list[float], count: int) -> Round:
    """enterabs() with 100,000 pending."""
    scheduler, _ = full_scheduler(scheduler_class, times)
    order = random.Random(3)

    def operation() -> None:
        for _ in range(count):
            scheduler.enterabs(order.choice(times), 1, int)

    return lambda: timed(operation, count)


def sched_run(scheduler_class: type, times: list[float], count: int) -> Round:
    """run() of due events, per event."""

    def one_round() -> float:
        scheduler, _ = full_scheduler(scheduler_class, [-when for when in times[:count]])
        scheduler.delayfunc = int
        return timed(scheduler.run, count)

    return one_round


def compare(name: str, standard: Round, ours: Round, at_least: int | None = None) -> None:
    rounds = [(standard(), ours()) for _ in range(ROUNDS)]
    (theirs_min, ours_min), (theirs, own) = (
        [pick(column) for column in zip(*rounds, strict=True)] for pick in (min, statistics.median)
    )
    ratio = f"{theirs / own:10,.1f}" if theirs < 100 * own else f"{theirs / own:10,.0f}"
    promise = "" if at_least is None else f"   (at least {at_least:,})"
    print(f"{name:36} {us(theirs_min)} {us(theirs)}   {us(ours_min)} {us(own)} {ratio}{promise}")


def us(seconds: float) -> str:
    return f"{seconds * 1e6:10,.2f}"


def main() -> None:
    rising = [time.monotonic() + FAR_OFF_S + i for i in range(PENDING)]
    shuffled = random.Random(1).sample(rising, PENDING)
    print(f"{platform.python_implementation()} {platform.python_version()}, microseconds an operation, {ROUNDS} rounds")
    print(f"{'':36} {'standard':>10} {'':10}   {'hwheel':>10}")
    print(f"{'':36} {'min':>10} {'median':>10}   {'min':>10} {'median':>10} {'ratio':>10}")
    standard, ours = threading.Timer, hwheel.Timer
    compare("Timer: make, start, cancel", timer_life(standard, 100), timer_life(ours, 10_000), 100)
    compare("Timer: start, cancel", timer_start(standard, 100), timer_start(ours, 10_000), 100)
    standard, ours = sched.scheduler, hwheel.sched.scheduler
    compare(
        "sched: cancel, times at random",
        sched_cancel(standard, shuffled, 3),
        sched_cancel(ours, shuffled, 5_000),
        10_000,
    )
    compare(
        "sched: cancel, times in order", sched_cancel(standard, rising, 3), sched_cancel(ours, rising, 5_000), 10_000
    )
    compare("sched: enterabs", sched_enter(standard, shuffled, 5_000), sched_enter(ours, shuffled, 5_000))
    compare("sched: run", sched_run(standard, shuffled, 20_000), sched_run(ours, shuffled, 20_000))


if __name__ == "__main__":
    main()
