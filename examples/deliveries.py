"""Deliveries with deadlines on hwheel.sched: each arrival cancels its deadline from another thread.

    python examples/deliveries.py

One thread runs the scheduler. The standard sched would sleep until the last deadline even if that was cancelled, and
each cancel would search the queue. hwheel.sched returns when no event is left.
"""

import threading
import time

from hwheel import sched

DELIVERIES = 10_000
DEADLINE_S = 600


def main() -> None:
    scheduler = sched.scheduler()
    late: list[int] = []
    deadlines = [scheduler.enter(DEADLINE_S, 1, late.append, (number,)) for number in range(DELIVERIES)]
    runner = threading.Thread(target=scheduler.run)
    runner.start()

    lost = {17, 4711}
    for number in lost:  # an earlier deadline wakes the runner
        scheduler.cancel(deadlines[number])
        scheduler.enter(0.05, 1, late.append, (number,))
    begin = time.perf_counter()
    for number, deadline in enumerate(deadlines):
        if number not in lost:
            scheduler.cancel(deadline)
    each_us = (time.perf_counter() - begin) / DELIVERIES * 1e6

    runner.join()
    print(f"{DELIVERIES - len(lost)} arrived, {each_us:.2f} us for each cancel; late: {sorted(late)}")


if __name__ == "__main__":
    main()
