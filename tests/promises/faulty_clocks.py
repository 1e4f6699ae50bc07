"""Clocks that raise or return nonsense. Each program prints the faults.

Adds on such a clock are refused. No task is lost, tasks run in order, and the timer goes on once the clock works again.
Clocks that step back or jump ahead have tests of their own in tests/threads.
"""

import faulthandler
import os
import tempfile
import time
from array import array
from concurrent.futures import ThreadPoolExecutor

from account import Account
from hwheel import SystemTimer
from hwheel.recorder import Recorder, RecordingTimer
from waiting import Waits

HANG_S = 40


class Clock:
    """A clock that returns the real time, or the result of `override`."""

    override = None

    def __call__(self):
        override = self.override
        return time.monotonic() * 1000 if override is None else override()


def fails():
    raise OSError("no clock")


def interrupts():
    raise KeyboardInterrupt


BAD = {
    "raises": fails,
    "raises KeyboardInterrupt": interrupts,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "minus inf": lambda: float("-inf"),
    "negative": lambda: -5,
    "negative float": lambda: -5.5,
    "huge": lambda: 1e300,
    "beyond 64 bits": lambda: 2**70,
    "None": lambda: None,
    "bool": lambda: True,
    "str": lambda: "12",
}


class World(Waits):
    patience_s = 6

    def __init__(self, executor):
        self.clock, self.account, self.reported = Clock(), Account(), []
        self.pool = ThreadPoolExecutor(1) if executor == "pool" else None
        self.reaper = executor != "no reaper"
        options = {
            "clock": self.clock,
            "executor": {"own": None, "pool": self.pool}.get(executor, "inline"),
            "reaper": self.reaper,
            "on_error": lambda source, error: self.reported.append(error),
        }
        self.recorder = None
        if executor == "recording":
            self.folder = tempfile.TemporaryDirectory()
            self.recorder = Recorder(os.path.join(self.folder.name, "log"))
            self.timer = RecordingTimer(self.recorder, **options)
        else:
            self.timer = SystemTimer(**options)

    def later(self, delay_ms):
        self.account.later(self.timer, delay_ms / 1000)
        return max(self.account.tasks)

    def go_on(self):
        if not self.reaper and not self.timer.closed:
            try:
                self.timer.advance_clock(2)
            except (Exception, KeyboardInterrupt) as error:
                self.reported.append(error)

    def all_run(self, numbers, what):
        if not self.wait_for(lambda: {*numbers} <= {*self.account.ran}):
            print(f"{what}: {len({*numbers} - {*self.account.ran})} of {len(numbers)} do not run")

    def end(self):
        self.reported.clear()
        self.account.close(self.timer)
        if self.pool is not None:
            self.pool.shutdown()
        if self.recorder is not None:
            self.recorder.close()
        for fault in self.account.faults(self.timer):
            print(fault)


def check_adds_are_refused(timer):
    for add in [
        lambda: timer.call_later(0.01, print, "a refused add runs"),
        lambda: timer.call_many(array("q", [1]), print),
        lambda: timer.call_every(0.01, print, "a refused add runs"),
    ]:
        size = len(timer)
        try:
            add()
            print("an add on a bad clock was not refused")
        except (Exception, KeyboardInterrupt):
            if len(timer) > size:
                print("a refused add is pending")


def is_bad_for_a_while(bad, executor):
    world, runs = World(executor), []
    numbers = [world.later(30 + i) for i in range(10)]
    world.later(100_000_000)
    every = world.timer.call_every(0.02, runs.append, 1)
    world.wait_for(lambda: runs)
    world.clock.override = BAD[bad]
    check_adds_are_refused(world.timer)
    until = time.monotonic() + 0.3
    world.wait_for(lambda: time.monotonic() > until)
    world.clock.override = None
    world.all_run(numbers, "after the clock is good again")
    if world.account.ran != numbers:
        print(f"out of order: {world.account.ran}")
    world.all_run([world.later(10)], "added after the clock is good again")
    before = len(runs)
    if not world.wait_for(lambda: len(runs) > before + 1, 3) and not every.cancelled:
        print("call_every neither goes on nor is cancelled")
    every.cancel()
    del every
    if not world.reported:
        print("no error was reported")
    world.end()


def is_bad_at_the_end(run_pending, executor):
    """close() returns or runs the pending tasks without a clock."""
    world = World(executor)
    for delay_ms in (1_000_000, 2_000_000):
        world.later(delay_ms)
    world.account.many(world.timer, array("q", [5_000_000]))
    world.account.again(world.timer, 1000)
    world.clock.override = fails
    if run_pending:
        world.account.take_back(world.timer.close(run_pending=True, timeout=5))
    world.end()


def is_bad_at_the_beginning(bad):
    try:
        SystemTimer(clock=BAD[bad])
        print("a timer accepted a bad clock")
    except (Exception, KeyboardInterrupt):
        pass
    if left := Account.threads_left():
        print(f"threads are left: {left}")


def cases():
    for bad in BAD:
        all_executors = bad in ("raises", "nan")
        for executor in ("own", "inline", "pool", "no reaper", "recording") if all_executors else ("own",):
            yield f"for a while / {bad} / {executor}"
        yield f"at the beginning / {bad} / own"
    for how in ("closing", "running the rest"):
        for executor in ("own", "inline", "pool", "no reaper", "recording"):
            yield f"at the end / {how} / {executor}"


CASES = [*cases()]


def run(case):
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    when, how, executor = case.split(" / ")
    if when == "at the beginning":
        is_bad_at_the_beginning(how)
    elif when == "at the end":
        is_bad_at_the_end(how == "running the rest", executor)
    else:
        is_bad_for_a_while(how, executor)
