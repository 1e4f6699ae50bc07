"""What a type checker must accept. `make types` runs mypy --strict over this and over the package that it imports."""

from array import array

import numpy as np

from hwheel import ManualTimer, SystemTimer, TimerBatch, TimerStats, TimerTask, TimingWheel


class Ping(TimerTask):
    def __init__(self, host: str) -> None:
        super().__init__(5_000)
        self.host = host

    def run(self) -> None:
        print(self.host)


def show(indices: "array[int]") -> None:
    print(list(indices))


def use(timer: SystemTimer | ManualTimer) -> TimerStats:
    ping: Ping = timer.add(Ping("localhost"))
    task: TimerTask = timer.call_later(1.5, print, "later")
    repeating: TimerTask = timer.call_every(1, print, "tick", missed="burst")
    batch: TimerBatch = timer.call_many(array("q", [1, 2, 3]), show)
    kept: bool = task.cancel() and repeating.reschedule(0.01) and ping.pending
    timer.call_many(np.array([1, 2, 3]), show).cancel(np.array([0]))
    print(kept, batch.cancel([1]), timer.pending()[0].deadline_ms, timer.close(run_pending=True))
    return timer.stats()


def look(wheel: TimingWheel) -> int | None:
    for bucket in wheel.snapshot().queue:
        print(bucket.level, bucket.expiration_ms, bucket.tasks)
    return wheel.next_expiration_ms


with SystemTimer("typed", clock=lambda: 0.5, executor="inline", on_error=lambda task, error: None) as timer:
    print(use(timer).lateness.p99)
