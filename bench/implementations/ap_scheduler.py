"""APScheduler: a job scheduler that is often used for timeouts."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from implementations.base import NO_BULK, Callback, Implementation

ADD_S = 2e-3  # longer than an add_job


class ApScheduler(Implementation):
    """A BackgroundScheduler with jobs in memory and its own thread, paused until all jobs are due."""

    name = "APScheduler"
    most = 1_000
    most_called = 1_000
    most_connections = 20
    is_quick = False
    lacks = NO_BULK
    flow_clock = time.process_time

    def __init__(self, pending: int, *, flowing: bool = False) -> None:
        self.scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": DebugExecutor()},
            job_defaults={"misfire_grace_time": None, "max_instances": 1_000_000},
        )
        self.scheduler.start(paused=not flowing)
        if not flowing:
            self.longest_s = max(0.05, pending * ADD_S)
            self.delay_scale = self.longest_s / 100

    def add(self, delay_s: float, callback: Callback, argument: Any) -> Any:
        when = datetime.now(UTC) + timedelta(seconds=delay_s)
        return self.scheduler.add_job(callback, "date", (argument,), run_date=when)

    def cancel(self, handle: Any) -> None:
        handle.remove()

    def reschedule(self, handle: Any, delay_s: float, callback: Callback, argument: Any) -> Any:
        return handle.reschedule("date", run_date=datetime.now(UTC) + timedelta(seconds=delay_s))

    def before_expiry(self) -> None:
        time.sleep(self.longest_s + 0.01)

    def expire(self) -> None:
        self.scheduler.resume()
        while self.scheduler.get_jobs():
            time.sleep(0.001)

    def flow(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            time.sleep(0.02)

    def close(self) -> None:
        self.scheduler.remove_all_jobs()
        self.scheduler.shutdown(wait=True)
