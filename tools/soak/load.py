"""Timers of every kind under load, with forks, signals, a jumping clock, and callbacks that are slow or fail."""

import faulthandler
import random
import signal
import threading
import time
from array import array
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from accounting import Account, growth, sample
from children import Forks
from hwheel import SystemTimer, TimerClosed

HANGS_S = 200
PROGRESS_S = 30  # between two lines
SLOW_S = 0.002
SHARES = {"own": 0.3, "inline": 0.14, "batches": 0.5, "pool": 0.01, "jumping": 0.05}  # of the tasks


@dataclass(frozen=True)
class Plan:
    """How much load, for ``seconds`` and until ``forks`` children have exited. An operation is an add or an end."""

    seconds: float = 3600
    pending: int = 1_000_000
    operations_per_s: int = 200_000
    seed: int = 1
    jump_every_s: float = 3
    fork_every_s: float = 5
    forks: int = 0

    @property
    def life_s(self):
        """The age at which a task is cancelled. Some run earlier, so it is more than the mean."""
        return 2.5 * self.pending / self.operations_per_s


class Planned(Exception):
    """The error that callbacks raise on purpose."""


class JumpingClock:
    """Monotonic time that can be set forward and back.

    A task is due once any reading since its add has reached its deadline, so the peaks before each jump back are kept.
    """

    def __init__(self):
        self._offset_ms = 0.0
        self.peaks_ms = []
        self.lock = threading.Lock()  # held while a deadline is computed and the task is added

    def __call__(self):
        # The time is read before the offset: otherwise a thread that stops in between could return more than a peak.
        return time.monotonic() * 1000 + self._offset_ms

    def jump(self, by_ms):
        """Set the clock forward, or back by a negative number."""
        with self.lock:
            if by_ms < 0:
                self.peaks_ms.append(self())
            self._offset_ms += by_ms

    def highest_s(self, jumps_back):
        """Return the highest possible reading since that number of jumps back."""
        return max([self(), *self.peaks_ms[jumps_back:]]) / 1000


class Adder:
    """A thread that adds tasks to one timer at a steady rate, reschedules some, and cancels the old ones."""

    at_once, tasks_per_item = 100, 1

    def __init__(self, timer, load, share, clock):
        self.timer, self.account, self.clock = timer, load.account, clock
        self.per_s, self.life_s = share * load.plan.operations_per_s / 2, load.plan.life_s
        self.random = random.Random(load.random.getrandbits(32))
        self.counts = Counter()
        self.failed = []  # a 0 for each failing callback: appending needs no lock
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._add_steadily, daemon=True)
        self.young = deque()

    def _add_steadily(self):
        """Add at the planned rate; after a standstill of the machine catch up with one second at most."""
        pause_s, next_s = self.at_once / self.per_s, time.monotonic()
        while not self.stop.wait(max(0.0, next_s - time.monotonic())):
            next_s = max(next_s, time.monotonic() - 1) + pause_s
            try:
                self.add()
            except (TimerClosed, RuntimeError):  # the interpreter exits: timers and threads cannot start any more
                return
            while len(self.young) * self.tasks_per_item > self.life_s * self.per_s:
                self.end_old(*self.young.popleft())

    def add(self):
        """Add tasks: a tenth with short delays, half of the others with delays beyond the age of cancelling."""
        for place in self.account.places(self.at_once):
            delay = self.random.random() * (2 * self.life_s if place % 10 else 0.05)
            with self.clock.lock:
                jumps_back = len(self.clock.peaks_ms)
                self.account.deadlines[place] = self.clock() / 1000 + delay
                self.young.append((place, self.timer.call_later(delay, self.run, place, jumps_back)))

    def end_old(self, place, task):
        """Cancel the task, or reschedule every tenth one."""
        if place % 10 != 5:
            if task.cancel():
                self.account.ends[place] += 1
                self.counts["cancelled"] += 1
            return
        delay = self.random.random() / 10
        with self.clock.lock:
            before, deadline = self.account.deadlines[place], self.clock() / 1000 + delay
            self.account.deadlines[place] = min(before, deadline)  # the task may run at this moment
            if task.reschedule(delay):
                self.account.deadlines[place] = deadline
                self.counts["rescheduled"] += 1

    def run(self, place, jumps_back):
        """The callback. Some calls are slow, some fail, and some add a task whose deadline is not checked."""
        self.account.run(place, self.clock.highest_s(jumps_back))
        if place % 10_100 == 0:
            self.counts["slow"] += 1
            time.sleep(SLOW_S)
        elif place % 1010 == 0:
            self.failed.append(0)
            raise Planned
        elif place % 505 == 0:
            (place,) = self.account.places(1)
            self.account.deadlines[place] = 0
            try:
                self.timer.call_later(0.01, self.account.run, place, 0)
            except TimerClosed:  # at the end of the soak
                self.account.ends[place] += 1

    def take_back(self, returned):
        """Record what close() returned. A signal's task has no place."""
        self.counts["returned"] += len(returned)
        self.account.end(np.array([task.args[0] for task in returned if task.args], int))


class BatchAdder(Adder):
    """The same for batches, half of whose timers are cancelled."""

    at_once = tasks_per_item = 2000

    def add(self):
        first = self.account.places(self.at_once)[0]
        delays = np.random.default_rng(self.random.getrandbits(32)).random(self.at_once) * 2000 * self.life_s
        self.account.expect(first, time.monotonic() + delays.astype("q") / 1000)
        self.young.append((first, self.timer.call_many(delays.astype("q"), partial(self.run_batch, first))))

    def run_batch(self, first, indices):
        """The callback."""
        now_s = time.monotonic()
        self.account.run_many(first + np.array(indices), now_s)

    def end_old(self, first, batch):
        # A bulk cancel returns only how many timers it cancelled, and the account needs to know which.
        one = array("q", [0])
        for index in batch.indices()[::2]:
            one[0] = index
            if batch.cancel(one):
                self.account.ends[first + index] += 1
                self.counts["cancelled"] += 1

    def take_back(self, returned):
        for batch in returned:
            self.account.end(batch.callback.args[0] + np.array(batch.indices()))
            self.counts["returned"] += batch.pending


class Load:
    """One run. ``make_timer`` is SystemTimer, or in tests a wrong variant."""

    def __init__(self, plan, make_timer=SystemTimer):
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.account = Account(int(plan.pending * 8 + plan.operations_per_s * 2.5) + 100_000)
        self.samples = []
        self.counts, self.faults = Counter(), Counter()
        self.clock, self.pool = JumpingClock(), ThreadPoolExecutor(2)
        options = {"inline": {"executor": "inline", "fork": "keep"}, "pool": {"executor": self.pool}}
        options["jumping"] = {"clock": self.clock}
        self.adders = {}
        for name, share in SHARES.items():
            timer = make_timer(name, on_error=self._on_error, **options.get(name, {}))
            clock = self.clock if name == "jumping" else JumpingClock()
            self.adders[name] = (BatchAdder if name == "batches" else Adder)(timer, self, share, clock)
        self.forks = Forks(self)
        self.reported = []  # types of errors without their tracebacks, which would keep objects alive
        self.begin = time.monotonic()

    def start_another(self):
        """Start the adders of another load with the same plan, and return the load."""
        another = Load(self.plan)
        for adder in another.adders.values():
            adder.thread.start()
        return another

    def _on_error(self, source, error):
        self.reported.append(type(error))
        if not isinstance(error, Planned):
            self.faults[f"error {error!r}"] += 1

    @property
    def seconds(self):
        """The time since the begin."""
        return time.monotonic() - self.begin

    @property
    def pending(self):
        """The number of pending tasks of all adders."""
        return sum(len(adder.timer) for adder in self.adders.values())

    def run(self):
        """Run the load for the planned time, then end every task and check the account."""
        usual = signal.signal(signal.SIGALRM, self._on_signal)
        self.begin = time.monotonic()
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
            for adder in self.adders.values():
                adder.thread.start()
            self._disturb()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, usual)
            for adder in self.adders.values():
                adder.stop.set()
        self._watch()
        for name, adder in self.adders.items():
            self._end(name, adder)
        self._check()
        faulthandler.cancel_dump_traceback_later()

    def _watch(self):
        """Exit with all stacks if this is not called again in time.

        Not for a plan with forks: a child waits at sys.exit() for the watching thread, which it does not have.
        """
        if not self.plan.forks:
            faulthandler.dump_traceback_later(HANGS_S, exit=True)

    def _disturb(self):
        """Sample, print, let the clock jump, and fork, each at its interval, until the time is up."""
        gaps = {
            lambda: self.samples.append((self.seconds, self.pending, *sample())): max(0.2, self.plan.seconds / 500),
            lambda: print(self.progress(), flush=True): PROGRESS_S,
            self._jump: self.plan.jump_every_s,
            self.forks.fork_and_wait: self.plan.fork_every_s,
        }
        due_s = {action: self.seconds + gap for action, gap in gaps.items()}
        while self.seconds < self.plan.seconds or self.counts["forks"] < self.plan.forks:
            self._watch()
            for action, gap in gaps.items():
                if self.seconds >= due_s[action]:
                    due_s[action] = self.seconds + gap
                    action()
            time.sleep(min(0.05, self.plan.fork_every_s))

    def progress(self):
        """Return a line about the run."""
        faults = "".join(f", {count} {fault}" for fault, count in (self.account.faults | self.faults).items())
        per_s = (2 * self.account.added - self.pending) / self.seconds
        forks = f"{self.counts['forks']:,} forks, {self.pending:,} pending"
        return f"{self.seconds:,.0f} s, {self.account.added:,} tasks, {per_s:,.0f} operations/s, {forks}{faults}"

    def _jump(self):
        self.clock.jump(self.random.choice([500.0, 50.0, -20.0, -300.0]))
        self.counts["jumps"] += 1

    def _on_signal(self, *_):
        """Add a task. It has no place, because the main thread may hold the lock of the account."""
        self.counts["signals"] += 1
        self.adders["own"].timer.call_later(0.001, self._count_signal)
        self.forks.on_signal()

    def _count_signal(self):
        self.counts["signals' tasks"] += 1

    def _end(self, name, adder):
        """End the pending tasks of a timer, and check its counters."""
        adder.thread.join()
        returned = adder.timer.close() if name in ("own", "batches") else adder.timer.drain(2)
        adder.take_back(returned)
        self.counts["signals' tasks"] += sum(getattr(one, "args", None) == () for one in returned)
        self.counts.update(adder.counts)
        stats = adder.timer.stats()
        ended = stats.expired + stats.cancelled + adder.counts["returned"]
        if stats.added != ended or stats.pending:
            self.faults[f"the counters of {name} do not add up"] += 1

    def _check(self):
        """Check that every task ended once and every error was reported, and that the process did not grow."""
        self.pool.shutdown()
        self.account.settle(0, len(self.account.ends))
        self.counts["errors"] = sum(len(adder.failed) for adder in self.adders.values())
        if missing := self.counts["errors"] - len(self.reported):
            self.faults["errors not reported, or twice"] = missing
        if missing := self.counts["signals"] - self.counts["signals' tasks"]:
            self.faults["lost or doubled in a signal handler"] = missing
        self.faults.update(self.account.faults)
        warm_up_s = max(0.3 * self.plan.seconds, 4 * self.plan.life_s)
        self.faults.update(growth([row for row in self.samples if row[0] >= warm_up_s]))
