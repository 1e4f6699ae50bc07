"""Runs a workload on an engine, in real time.

The driver wakes up every millisecond, starts the requests whose time has come, one timer each, and cancels the timers
of those that complete. Between two slices it lets the engine wait, so that callbacks get the interpreter. Only the
loops of nothing but add calls, and of nothing but cancel calls, are timed: that is what the engine could do a second if
it had nothing else to do.
"""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

from hwheel.cli.demo.engines import Engine
from hwheel.cli.demo.workload import Workload

SLICE_S = 0.001
SLICE_MOST = 2_000  # adds or cancels in one slice, where the driver has fallen behind
IDLE_S = 0.02
REPORT_EVERY_S = 0.1
GRACE_S = 10.0  # how long after the last deadline a timer counts as lost
AFTERMATH_S = 0.05  # in which what is doubled would show up


class Progress(NamedTuple):
    """How far a run has come."""

    started: int
    cancelled: int
    expired: int


class Run(NamedTuple):
    """What came out of it. runs: (timer, when) for each callback; cancels: who was cancelled in time; deadlines: of
    each timer; all on time.monotonic()."""

    engine: str
    deadlines: list[float]
    runs: list[tuple[int, float]]
    cancels: list[int]
    adding_s: float  # time spent in add calls
    cancel_calls: int
    cancelling_s: float  # time spent in cancel calls
    add_phase_s: float  # from the first add to the last
    peak_pending: int


def drive(engine: Engine, workload: Workload, report: Callable[[Progress], object] | None = None) -> Run:
    """Runs the whole workload, until everything has run or was cancelled, or GRACE_S after the last deadline."""
    driver = Driver(engine, workload)
    next_report = 0.0
    while not driver.is_done():
        now = time.monotonic()
        driver.start_requests(now)
        driver.complete_requests(now)
        if report is not None and now >= next_report:
            report(driver.progress())
            next_report = now + REPORT_EVERY_S
        engine.wait(driver.next_slice(now))
    engine.wait(time.monotonic() + AFTERMATH_S)
    if report is not None:
        report(driver.progress())
    return driver.result()


class Driver:
    """A run under way: what has been started, cancelled and called so far."""

    def __init__(self, engine: Engine, workload: Workload) -> None:
        self.engine = engine
        self.workload = workload
        self.handles: list[Any] = []
        self.deadlines: list[float] = []
        self.runs: list[tuple[int, float]] = []
        self.cancels: list[int] = []
        self.seen_to_run: set[int] = set()
        self.runs_seen = 0  # how many of runs are in seen_to_run
        self.completed = 0  # how many of workload.ending
        self.adding_s = 0.0
        self.cancelling_s = 0.0
        self.peak_pending = 0
        self.begin = self.last_add = time.monotonic()
        self.give_up = float("inf")

    def start_requests(self, now: float) -> None:
        """Adds the timers of the requests that have started by now."""
        starts, added = self.workload.starts_s, len(self.handles)
        until = min(bisect_right(starts, now - self.begin, added), added + SLICE_MOST)
        if until == added:
            return
        whens = [now + timeout for timeout in self.workload.timeouts_s[added:until]]
        self.deadlines += whens  # before the adds: a callback may come at once
        call_at, expire = self.engine.call_at, self.expire
        before = time.perf_counter()
        handles = [call_at(when, expire, index) for index, when in enumerate(whens, added)]
        self.adding_s += time.perf_counter() - before
        self.handles += handles
        self.peak_pending = max(self.peak_pending, until - len(self.cancels) - len(self.runs))
        if until == len(starts):
            self.last_add = time.monotonic()
            self.give_up = max(self.deadlines) + GRACE_S

    def complete_requests(self, now: float) -> None:
        """Cancels the timers of the requests that have completed by now, of those that were added."""
        workload, done, added = self.workload, self.completed, len(self.handles)
        reached = now - self.begin
        until = bisect_right(workload.ends_s, reached, done)
        if added < len(workload):
            # Whoever ends before the next request starts has been added itself.
            until = min(until, bisect_left(workload.ends_s, workload.starts_s[added], done))
        until = min(until, done + SLICE_MOST)
        if until == done:
            return
        indices = workload.ending[done:until]
        handles = [self.handles[index] for index in indices]
        cancel = self.engine.cancel
        before = time.perf_counter()
        in_time = [cancel(handle) for handle in handles]
        self.cancelling_s += time.perf_counter() - before
        self.completed = until
        if None in in_time:  # the engine does not say: whoever has not run by now will not
            seen = len(self.runs)  # more may come in from another thread meanwhile
            self.seen_to_run.update(index for index, _ in self.runs[self.runs_seen : seen])
            self.runs_seen = seen
            in_time = [index not in self.seen_to_run for index in indices]
        self.cancels += [index for index, kept in zip(indices, in_time, strict=True) if kept]
        for index in indices:
            self.handles[index] = None

    def expire(self, index: int) -> None:
        """The callback. Appending is all that it does: it may run in any thread."""
        self.runs.append((index, time.monotonic()))

    def next_slice(self, now: float) -> float:
        """When there is something to do again."""
        workload, added = self.workload, len(self.handles)
        ahead = IDLE_S
        if added < len(workload):
            ahead = min(ahead, workload.starts_s[added] - (now - self.begin))
        if self.completed < len(workload.ends_s):
            ahead = min(ahead, workload.ends_s[self.completed] - (now - self.begin))
        return now + max(ahead, SLICE_S)

    def is_done(self) -> bool:
        """Everything has run or was cancelled and all requests that complete have done so; or it is too late."""
        if len(self.handles) < len(self.workload):
            return False
        if time.monotonic() > self.give_up and self.completed == len(self.workload.ends_s):
            return True
        return len(self.runs) + len(self.cancels) >= len(self.workload) and self.completed == len(self.workload.ends_s)

    def progress(self) -> Progress:
        """How far it has come."""
        return Progress(len(self.handles), len(self.cancels), len(self.runs))

    def result(self) -> Run:
        """What came out of it."""
        return Run(
            self.engine.name,
            self.deadlines,
            self.runs,
            self.cancels,
            self.adding_s,
            self.completed,
            self.cancelling_s,
            self.last_add - self.begin,
            self.peak_pending,
        )
