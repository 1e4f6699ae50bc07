"""Clocks that step back, jump ahead, stand still, raise, or return nonsense. Each program prints the faults.

No task runs early by the timer's time, which stands still while the clock is behind. No task is lost, tasks run
in order, and the timer goes on once the clock works again.
"""

import faulthandler
import os
import tempfile
import threading
import time
from array import array
from concurrent.futures import ThreadPoolExecutor

from account import Account
from hwheel import SystemTimer
from hwheel.recorder import Recorder, RecordingTimer
from waiting import Waits

YEAR_MS = 365 * 24 * 3600 * 1000
HANG_S = 40
START_MS = 1_000_000_000


class Clock:
    """A clock that returns the real time plus `shift_ms`, or the result of `override`."""

    def __init__(self):
        self.begin = time.monotonic()
        self.shift_ms = 0
        self.override = None
        self.reads = 0

    def __call__(self):
        self.reads += 1
        override = self.override
        return override() if override is not None else self.good()

    def good(self):
        return START_MS + (time.monotonic() - self.begin) * 1000 + self.shift_ms

    def freeze(self):
        now = self.good()
        self.override = lambda: now

    def thaw(self, back_ms=0):
        """Continue from the frozen time, or from `back_ms` before it."""
        self.shift_ms += self() - self.good() - back_ms
        self.override = None


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

    def __init__(self, executor, kind):
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        self.clock = Clock()
        self.account = Account()
        self.reported = []
        self.pool = ThreadPoolExecutor(1) if executor == "pool" else None
        chosen = {"own": None, "inline": "inline", "pool": self.pool, "no reaper": "inline"}[executor]
        self.reaper = executor != "no reaper"
        options = {
            "clock": self.clock,
            "executor": chosen,
            "reaper": self.reaper,
            "on_error": lambda source, error: self.reported.append(error),
        }
        self.recorder = None
        if kind == "recording":
            self.folder = tempfile.TemporaryDirectory()
            self.recorder = Recorder(os.path.join(self.folder.name, "log"))
            self.timer = RecordingTimer(self.recorder, **options)
        else:
            self.timer = SystemTimer(**options)
        self.tasks = {}
        self.order = []

    def later(self, delay_ms):
        """Add a task that prints a fault if it runs early."""

        def run(argument):
            self.account.run(argument)
            self.order.append(argument.number)
            now, task = round(self.timer.time() * 1000, 4), self.tasks.get(argument.number)
            deadline_ms = now if task is None else task.deadline_ms  # a due task may run before it is stored
            if now < deadline_ms:
                print(f"{deadline_ms - now:.1f} ms early by its clock")

        task = self.account.later(self.timer, delay_ms / 1000, run)
        number = max(self.account.tasks)
        self.tasks[number] = task
        return number

    def go_on(self):
        if not self.reaper and not self.timer.closed:
            try:
                self.timer.advance_clock(2)
            except (Exception, KeyboardInterrupt) as error:
                self.reported.append(error)

    def pass_time(self, seconds):
        until = time.monotonic() + seconds
        self.wait_for(lambda: time.monotonic() > until)

    def step_back(self, by_ms):
        """Freeze the clock until all dispatched tasks have run, and then set it back."""
        self.clock.freeze()
        self.pass_time(0.01)
        if not self.wait_for(lambda: self.timer.stats().expired == len(self.account.ran)):
            print("the dispatched tasks do not run")
        self.clock.thaw(by_ms)

    def all_run(self, numbers, what):
        if not self.wait_for(lambda: {*numbers} <= {*self.account.ran}):
            print(f"{what}: {len({*numbers} - {*self.account.ran})} of {len(numbers)} do not run")

    def end(self, *, errors=False):
        if errors and not self.reported:
            print("no error was reported")
        if self.reported and not errors:
            print(f"reported: {self.reported}")
        self.tasks.clear()
        self.reported.clear()
        self.account.close(self.timer)
        if self.pool is not None:
            self.pool.shutdown()
        if self.recorder is not None:
            self.recorder.close()
        for fault in self.account.faults(self.timer):
            print(fault)


def mixed(world, delays_ms):
    numbers = [world.later(delay_ms) for delay_ms in delays_ms]
    world.account.later(world.timer, 100_000_000)
    return numbers


def steps_back(world, by_ms):
    numbers = mixed(world, [60 + i // 2 for i in range(40)])
    world.pass_time(0.02)
    world.step_back(by_ms)
    before = len(world.account.ran)
    world.pass_time(0.1)
    if by_ms > 1000:
        if len(world.account.ran) > before:
            print(f"{len(world.account.ran) - before} ran while the clock was {by_ms} ms back")
        world.clock.shift_ms += by_ms
    waker = world.later(0)  # wakes the reaper, which sleeps for as long as the clock was behind
    world.all_run([*numbers, waker], "after the step")
    if world.order != sorted(world.order, key=lambda n: (n != max(world.order), n)) and sorted(numbers) != [
        n for n in world.order if n in numbers
    ]:
        print(f"out of order: {world.order}")
    world.end()


def steps_back_before_an_add(world):
    """The wheel's time is ahead of the clock when the tasks are added."""
    world.all_run([world.later(1)], "before the step")
    world.clock.shift_ms -= 3000
    numbers = [world.later(delay_ms) for delay_ms in (200, 100, 100, 0)]
    batch_ran = []
    begin = world.clock()
    world.timer.call_many(array("q", [150]), lambda indices: batch_ran.append(world.clock()))
    every_ran = []
    every = world.timer.call_every(0.1, lambda: every_ran.append(world.clock()))
    world.all_run(numbers, "after the step")
    world.wait_for(lambda: batch_ran and len(every_ran) >= 2)
    every.cancel()
    if not batch_ran or len(every_ran) < 2:
        print(f"the batch ran {len(batch_ran)} times, call_every {len(every_ran)}")
    if batch_ran and batch_ran[0] < begin + 150:
        print(f"the batch's 150 ms ran after {batch_ran[0] - begin:.1f}")
    if every_ran and every_ran[0] < begin + 100:
        print(f"call_every's first 100 ms ran after {every_ran[0] - begin:.1f}")
    if world.order[-3:] != [numbers[1], numbers[2], numbers[0]]:
        print(f"out of order: {world.order}")
    del every
    world.end()


def steps_back_before_dispatch(world):
    """The clock steps back while expired tasks wait behind a callback."""
    inside, hold = threading.Event(), threading.Event()

    def run(argument):
        world.account.run(argument)
        inside.set()
        hold.wait(20)

    world.account.later(world.timer, 0.01, run)
    numbers = [world.later(20 + i) for i in range(5)]
    batch_ran = []
    batch = world.timer.call_many(array("q", [22, 23]), lambda indices: batch_ran.append(world.clock()))
    inside.wait(10)
    time.sleep(0.1)
    world.clock.shift_ms -= 400
    hold.set()
    world.all_run(numbers, "after the step")
    world.wait_for(lambda: not batch.pending)
    if not batch_ran:
        print("the batch does not run")
    if world.order != numbers:
        print(f"out of order: {world.order}")
    batch = None
    world.end()


def jumps_ahead(world):
    numbers = mixed(world, [50 + 7 * i for i in range(20)]) + [world.later(3_600_000)]
    runs = []
    every = world.timer.call_every(0.05, runs.append, 1)
    world.pass_time(0.02)
    world.clock.shift_ms += YEAR_MS
    world.all_run(numbers, "after the jump")
    if world.order != numbers:
        print(f"out of order: {world.order}")
    world.all_run([world.later(100)], "added after the jump")
    world.pass_time(0.2)
    if not 1 <= len(runs) < 50:
        print(f"call_every ran {len(runs)} times")
    every.cancel()
    del every
    world.timer.pending()
    for number in [n for n, one in world.account.tasks.items() if one.expired and n not in world.account.ran]:
        print(f"{number} expired and did not run")
    world.end()


def stands_still(world):
    world.clock.freeze()  # before the adds, because on a busy machine a task may expire before the next add
    numbers = mixed(world, [40, 30, 50])
    reads = world.clock.reads
    world.pass_time(0.4)
    if world.account.ran:
        print(f"ran while the clock stood still: {world.account.ran}")
    if world.reaper and world.clock.reads - reads > 500:
        print(f"the clock was read {world.clock.reads - reads} times while it stood still")
    now = world.later(0)
    world.all_run([now], "due while the clock stands still")
    world.clock.thaw()
    world.all_run(numbers, "after it goes on")
    if world.order[1:] != [numbers[1], numbers[0], numbers[2]]:
        print(f"out of order: {world.order}")
    world.end()


def is_bad_for_a_while(world, bad):
    numbers = mixed(world, [30 + i for i in range(10)])
    runs = []
    every = world.timer.call_every(0.02, runs.append, 1)
    world.wait_for(lambda: runs)
    world.clock.override = BAD[bad]
    for add in [
        lambda: world.timer.call_later(0.01, print, "a refused add runs"),
        lambda: world.timer.call_many(array("q", [1]), print),
        lambda: world.timer.call_every(0.01, print, "a refused add runs"),
    ]:
        size = len(world.timer)
        try:
            add()
            print("an add on a bad clock was not refused")
        except (Exception, KeyboardInterrupt):
            if len(world.timer) > size:
                print("a refused add is pending")
    world.pass_time(0.3)
    world.clock.override = None
    world.all_run(numbers, "after the clock is good again")
    if world.order != numbers:
        print(f"out of order: {world.order}")
    world.all_run([world.later(10)], "added after the clock is good again")
    before = len(runs)
    if not world.wait_for(lambda: len(runs) > before + 1, 3) and not every.cancelled:
        print("call_every neither goes on nor is cancelled")
    every.cancel()
    del every
    world.end(errors=True)


def is_bad_at_the_end(world, bad, run_pending):
    """close() returns or runs the pending tasks without a clock."""
    mixed(world, [1_000_000, 2_000_000])
    world.account.many(world.timer, array("q", [5_000_000]))
    world.account.again(world.timer, 1000)
    world.clock.override = BAD[bad]
    world.tasks.clear()
    if run_pending:
        world.account.take_back(world.timer.close(run_pending=True, timeout=5))
    else:
        world.account.close(world.timer)
    world.reported.clear()
    world.end()


def is_bad_at_the_beginning(bad):
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    try:
        SystemTimer(clock=BAD[bad])
        print("a timer accepted a bad clock")
    except (Exception, KeyboardInterrupt):
        pass
    if left := Account.threads_left():
        print(f"threads are left: {left}")


SCENARIOS = {
    "steps back by 10 ms": lambda world: steps_back(world, 10),
    "steps back by 300 ms": lambda world: steps_back(world, 300),
    "steps back by an hour, and forward": lambda world: steps_back(world, 3_600_000),
    "steps back before an add": steps_back_before_an_add,
    "steps back before dispatch": steps_back_before_dispatch,
    "jumps ahead": jumps_ahead,
    "stands still": stands_still,
    "bad at close": lambda world: is_bad_at_the_end(world, "raises", False),
    "bad at close running the rest": lambda world: is_bad_at_the_end(world, "raises", True),
} | {f"bad: {bad}": lambda world, bad=bad: is_bad_for_a_while(world, bad) for bad in BAD}


def cases():
    for name in SCENARIOS:
        simple = name.startswith("bad: ") and name not in ("bad: raises", "bad: nan")
        for executor in ["own"] if simple else ["own", "inline", "pool", "no reaper"]:
            if not (executor in ("pool", "no reaper") and name == "steps back before dispatch"):
                yield f"{name} / {executor} / system"
        if not simple and name != "steps back before dispatch":
            yield f"{name} / own / recording"
    yield from (f"bad at the beginning / {bad} / system" for bad in BAD)


CASES = [*cases()]


def run(case):
    name, executor, kind = case.split(" / ")
    if name == "bad at the beginning":
        is_bad_at_the_beginning(executor)
    else:
        SCENARIOS[name](World(executor, kind))
