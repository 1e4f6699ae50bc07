"""Workloads, and the driver that runs one on an engine in real time."""

import random
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from hwheel.cli.demo.engines import Engine

SLICE_S = 0.001
MAX_SLICE = 4_000  # events in one slice if the driver has fallen behind
IDLE_S = 0.02
REPORT_EVERY_S = 0.1
GRACE_S = 10.0  # a timer that has not run this long after the last deadline is lost
AFTERMATH_S = 0.05  # time in which a doubled callback would run


class Request(NamedTuple):
    """A request with a timeout. end_ms: its completion, which cancels the timeout; None: it never completes."""

    start_ms: float
    timeout_ms: float
    end_ms: float | None


class Workload:
    """The starts and completions of requests in order of time, with all times divided by ``speed``.

    Attributes:
        timeouts_s: The timeout of each request.
        times_s: The time of each event.
        events: ``(index of the request, True if it completes)`` for each event.
    """

    def __init__(self, requests: list[Request], speed: float = 1.0) -> None:
        ms = 1000.0 * speed
        starts = [(request.start_ms / ms, False, index) for index, request in enumerate(requests)]
        ends = [
            (request.end_ms / ms, True, index) for index, request in enumerate(requests) if request.end_ms is not None
        ]
        events = sorted(starts + ends)
        self.timeouts_s = [request.timeout_ms / ms for request in requests]
        self.times_s = [time_s for time_s, _, _ in events]
        self.events = [(index, completes) for _, completes, index in events]
        self.seconds = max(request.start_ms + request.timeout_ms for request in requests) / ms


def generate(options: Any) -> list[Request]:
    """Return requests at a steady rate, ``cancel_ratio`` of which complete within nine tenths of their timeout."""
    chance = random.Random(options.seed)
    completing = round(options.count * options.cancel_ratio)
    completes = [True] * completing + [False] * (options.count - completing)
    chance.shuffle(completes)
    requests = []
    for index, complete in enumerate(completes):
        start_ms = index * 1000.0 / options.rate
        timeout_ms = chance.uniform(*options.timeout_ms)
        end_ms = start_ms + timeout_ms * 0.9 * chance.random() ** 2 if complete else None
        requests.append(Request(start_ms, timeout_ms, end_ms))
    return requests


class Run:
    """One run of a workload on an engine.

    Only loops that consist of add calls, or of cancel calls, are timed. Between two slices the engine waits, so that
    callbacks can run.

    Args:
        report: Called with the run from time to time, and at the end.
    """

    def __init__(self, engine: Engine, workload: Workload, report: "Callable[[Run], object]") -> None:
        self.engine, self.workload, self.report = engine, workload, report
        count = len(workload.timeouts_s)
        self.deadlines = [0.0] * count
        self.callbacks: list[tuple[int, float]] = []  # (timer, time) of each call
        self.cancels: list[int] = []  # timers that were cancelled in time
        self.cancel_calls = self.started = self.peak_pending = 0
        self.adding_s = self.cancelling_s = 0.0
        self._handles: list[Any] = [None] * count
        self._have_run: set[int] = set()
        self._done = 0  # events

    @property
    def pending(self) -> int:
        return max(0, self.started - len(self.cancels) - len(self.callbacks))

    def drive(self) -> "Run":
        """Run until every timer has run or was cancelled, or until GRACE_S after the last deadline."""
        begin = now = time.monotonic()
        next_report, times_s, give_up = 0.0, self.workload.times_s, float("inf")
        while self._done < len(times_s) or (self.pending > 0 and now < give_up):
            now = time.monotonic()
            self._slice(min(bisect_right(times_s, now - begin, self._done), self._done + MAX_SLICE), now)
            if now >= next_report:
                self.report(self)
                next_report = now + REPORT_EVERY_S
            ahead_s = IDLE_S
            if self._done < len(times_s):
                ahead_s = times_s[self._done] - (now - begin)
            else:
                give_up = max(self.deadlines) + GRACE_S
            self.engine.wait(now + max(SLICE_S, min(ahead_s, IDLE_S)))
        self.engine.wait(time.monotonic() + AFTERMATH_S)
        self.report(self)
        return self

    def _slice(self, until: int, now: float) -> None:
        events = self.workload.events[self._done : until]
        self._done = until
        self._add([index for index, completes in events if not completes], now)
        self._cancel([index for index, completes in events if completes])

    def _add(self, indices: list[int], now: float) -> None:
        whens = [now + self.workload.timeouts_s[index] for index in indices]
        for index, when in zip(indices, whens, strict=True):
            self.deadlines[index] = when  # before the adds: a callback can run at once
        call_at, expire = self.engine.call_at, self._expire
        before = time.perf_counter()
        handles = [call_at(when, expire, index) for when, index in zip(whens, indices, strict=True)]
        self.adding_s += time.perf_counter() - before
        for index, handle in zip(indices, handles, strict=True):
            self._handles[index] = handle
        self.started += len(indices)
        self.peak_pending = max(self.peak_pending, self.pending)

    def _cancel(self, indices: list[int]) -> None:
        handles = [self._handles[index] for index in indices]
        cancel = self.engine.cancel
        before = time.perf_counter()
        in_time = [cancel(handle) for handle in handles]
        self.cancelling_s += time.perf_counter() - before
        self.cancel_calls += len(indices)
        for index, cancelled in zip(indices, in_time, strict=True):
            self._handles[index] = None
            # An engine that returns None never runs a cancelled callback, so a callback that has not run is cancelled.
            if cancelled if cancelled is not None else index not in self._have_run:
                self.cancels.append(index)

    def _expire(self, index: int) -> None:
        """The callback, which can run in any thread."""
        self._have_run.add(index)
        self.callbacks.append((index, time.monotonic()))


class Account(NamedTuple):
    """How many timers were lost (neither ran nor were cancelled), doubled (ended twice), or ran early."""

    lost: int
    doubled: int
    early: int


def account(deadlines: list[float], callbacks: list[tuple[int, float]], cancels: list[int]) -> Account:
    """Check that every timer ended exactly once, and that no callback ran before its deadline."""
    ends = Counter(index for index, _ in callbacks) + Counter(cancels)
    return Account(
        lost=len(deadlines) - len(ends),
        doubled=sum(times > 1 for times in ends.values()),
        early=len({index for index, when in callbacks if when < deadlines[index]}),
    )
