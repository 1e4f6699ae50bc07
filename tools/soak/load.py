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

import numpy as np

import children
from accounting import Account, Samples
from hwheel import SystemTimer, TimerClosed

HANGS_S = 200
SLOW_S = 0.002
SHARES = {"own": 0.3, "inline": 0.14, "batches": 0.5, "pool": 0.01, "jumping": 0.05}  # of the tasks


@dataclass(frozen=True)
class Plan:
    """How much load, for how long. An operation is an add, a run, or a cancel.

    A run lasts for ``seconds`` and until ``forks`` children have exited.
    """

    seconds: float = 3600
    pending: int = 1_000_000
    operations_per_s: int = 200_000
    seed: int = 1
    jump_every_s: float = 3
    fork_every_s: float = 5
    forks: int = 0

    @property
    def tasks_per_s(self):
        """The number of new tasks. Each is added and ends."""
        return self.operations_per_s / 2

    @property
    def life_s(self):
        """The age at which a task is cancelled. Some run earlier, so it is more than the mean."""
        return 1.25 * self.pending / self.tasks_per_s


class Planned(Exception):
    """The error that callbacks raise on purpose."""


class JumpingClock:
    """Monotonic time that can be set forward and back.

    A task is due once any reading since its add has reached its deadline, so the peaks before each jump back are kept.
    """

    def __init__(self):
        self._offset_ms = 0.0
        self._peaks_ms = []
        self.lock = threading.Lock()  # held while a deadline is computed and the task is added

    def __call__(self):
        # The time is read before the offset: otherwise a thread that stops in between could return more than a peak.
        return time.monotonic() * 1000 + self._offset_ms

    def jump(self, by_ms):
        """Set the clock forward, or back by a negative number."""
        with self.lock:
            if by_ms < 0:
                self._peaks_ms.append(self())
            self._offset_ms += by_ms

    @property
    def jumps_back(self):
        """How often the clock was set back."""
        return len(self._peaks_ms)

    def highest_s(self, jumps_back):
        """Return the highest possible reading since that number of jumps back."""
        return max([self(), *self._peaks_ms[jumps_back:]]) / 1000


class Adder:
    """A thread that adds tasks to one timer at a steady rate, reschedules some, and cancels the old ones."""

    at_once = 100

    def __init__(self, timer, load, share, clock):
        self.timer, self.load, self.account, self.clock = timer, load, load.account, clock
        self.per_s, self.life_s = share * load.plan.tasks_per_s, load.plan.life_s
        self.random = random.Random(load.random.getrandbits(32))
        self.counts = Counter()
        self.failed = []  # a 0 for each failing callback: appending needs no lock
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._add_steadily, daemon=True)
        self.young = deque()

    def _add_steadily(self):
        """Add at the planned rate; after a standstill of the machine catch up with one second at most."""
        owed, last = 0.0, time.monotonic()
        while not self.stop.is_set():
            now = time.monotonic()
            owed, last = min(owed + (now - last) * self.per_s, self.per_s), now
            if owed < self.at_once:
                time.sleep(0.005)
                continue
            owed -= self.at_once
            try:
                self.add()
            except (TimerClosed, RuntimeError):  # the interpreter exits: timers and threads cannot start any more
                return
            while len(self.young) * self.tasks_per_item > self.life_s * self.per_s:
                self.end_old(*self.young.popleft())

    tasks_per_item = 1

    def add(self):
        """Add tasks: a tenth with short delays, half of the others with delays beyond the age of cancelling."""
        for place in self.account.places(self.at_once):
            delay = self.random.random() * (2 * self.life_s if place % 10 else 0.05)
            with self.clock.lock:
                jumps_back = self.clock.jumps_back
                self.account.deadlines[place] = self.clock() / 1000 + delay
                self.young.append((place, self.timer.call_later(delay, self.run, place, jumps_back)))

    def end_old(self, place, task):
        """Cancel the task, or reschedule every tenth one."""
        if place % 10 != 5:
            if task.cancel():
                self.account.end(place)
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
        """The callback."""
        now_s = self.clock.highest_s(jumps_back)
        self.account.run(place, now_s)
        if place % 10_100 == 0:
            self.counts["slow"] += 1
            time.sleep(SLOW_S)
        elif place % 1010 == 0:
            self.failed.append(0)
            raise Planned
        elif place % 505 == 0:
            self.add_in_callback()

    def add_in_callback(self):
        """Add one task to the same timer."""
        (place,) = self.account.places(1)
        self.account.deadlines[place] = 0  # without a check that it is not early
        try:
            self.timer.call_later(0.01, self.account.run, place, 0)
        except TimerClosed:  # at the end of the soak
            self.account.end(place)

    def take_back(self, returned):
        """Record what close() returned."""
        for task in returned:
            self.counts["returned"] += 1
            if task.args:  # a signal's task has none
                self.account.end(task.args[0])


class BatchAdder(Adder):
    """The same for batches, half of whose timers are cancelled."""

    at_once = tasks_per_item = 2000

    def add(self):
        first = self.account.places(self.at_once)[0]
        delays = np.random.default_rng(self.random.getrandbits(32)).random(self.at_once) * 2000 * self.life_s
        self.account.expect(first, time.monotonic() + delays.astype("q") / 1000)
        self.young.append((first, self.timer.call_many(delays.astype("q"), BatchCallback(self, first))))

    def end_old(self, first, batch):
        # A bulk cancel returns only how many timers it cancelled, and the account needs to know which.
        one = array("q", [0])
        for index in batch.indices()[::2]:
            one[0] = index
            if batch.cancel(one):
                self.account.end(first + index)
                self.counts["cancelled"] += 1

    def take_back(self, returned):
        for batch in returned:
            places = batch.callback.first + np.array(batch.indices())
            self.account.end_many(places)
            self.counts["returned"] += len(places)


class BatchCallback:
    """The callback of a batch whose places begin at ``first``."""

    def __init__(self, adder, first):
        self.adder, self.first = adder, first

    def __call__(self, indices):
        now_s = time.monotonic()
        self.adder.account.run_many(self.first + np.array(indices), now_s)


class Load:
    """One run. ``make_timer`` is SystemTimer, or in tests a wrong variant."""

    def __init__(self, plan, make_timer=SystemTimer):
        self.plan, self.make_timer = plan, make_timer
        self.random = random.Random(plan.seed)
        self.account = Account(int(plan.pending * 8 + plan.tasks_per_s * 5) + 100_000)
        self.samples = Samples(max(0.3 * plan.seconds, 4 * plan.life_s))
        self.counts, self.faults, self.reported = Counter(), Counter(), []
        self.clock, self.pool = JumpingClock(), ThreadPoolExecutor(2)
        options = {"inline": {"executor": "inline", "fork": "keep"}, "pool": {"executor": self.pool}}
        options["jumping"] = {"clock": self.clock}
        self.adders = {}
        for name, share in SHARES.items():
            timer = self.timer(name, **options.get(name, {}))
            clock = self.clock if name == "jumping" else JumpingClock()
            self.adders[name] = (BatchAdder if name == "batches" else Adder)(timer, self, share, clock)
        self.forks = children.Forks(self)
        self.most_pending = 0
        self.begin = time.monotonic()

    def timer(self, name, **options):
        """Return a timer that reports its errors to this run."""
        return self.make_timer(name, on_error=self._on_error, **options)

    def _on_error(self, source, error):
        self.reported.append(type(error))  # without its traceback, which would keep objects alive
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

    @property
    def operations(self):
        """The number of adds, ends, and reschedules."""
        return 2 * self.account.added - self.pending + sum(one.counts["rescheduled"] for one in self.adders.values())

    def run(self, on_progress=lambda load: None):
        """Run the load for the planned time, then end every task and check the account."""
        usual = signal.signal(signal.SIGALRM, self._on_signal)
        self.begin = time.monotonic()
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
            for adder in self.adders.values():
                adder.thread.start()
            self._disturb(on_progress)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, usual)
            for adder in self.adders.values():
                adder.stop.set()
        self._watch()
        self._end()
        faulthandler.cancel_dump_traceback_later()

    def _watch(self):
        """Exit with all stacks if this is not called again in time.

        Not for a plan with forks: a child waits at sys.exit() for the watching thread, which it does not have.
        """
        if not self.plan.forks:
            faulthandler.dump_traceback_later(HANGS_S, exit=True)

    def _disturb(self, on_progress):
        """Sample, let the clock jump, and fork, each at its interval, until the time is up."""
        gaps = {self._sample: max(0.2, self.plan.seconds / 500), self._jump: self.plan.jump_every_s}
        gaps[self.forks.fork_and_wait] = self.plan.fork_every_s
        due_s = {action: self.seconds + gap for action, gap in gaps.items()}
        while self.seconds < self.plan.seconds or self.counts["forks"] < self.plan.forks:
            self._watch()
            for action, gap in gaps.items():
                if self.seconds >= due_s[action]:
                    due_s[action] = self.seconds + gap
                    action()
            on_progress(self)
            time.sleep(min(0.05, self.plan.fork_every_s))

    def _sample(self):
        self.samples.take()
        self.most_pending = max(self.most_pending, self.pending)

    def _jump(self):
        self.clock.jump(self.random.choice([500.0, 50.0, -20.0, -300.0]))
        self.counts["jumps"] += 1

    def _on_signal(self, *_):
        """Add a task. It has no place, because the main thread may hold the lock of the account."""
        self.counts["signals"] += 1
        self.adders["own"].timer.call_later(0.001, self._count_signal)
        self.forks.on_signal()

    def _count_signal(self):
        self.counts["ran for signals"] += 1

    def _end(self):
        """End all pending tasks, check the counters of the timers, and close the account."""
        for name, adder in self.adders.items():
            adder.thread.join()
            returned = adder.timer.close() if name in ("own", "batches") else adder.timer.drain(2)
            adder.take_back(returned)
            self.counts["signals returned"] += sum(getattr(one, "args", None) == () for one in returned)
            self.counts.update(adder.counts)
            stats = adder.timer.stats()
            ended = stats.expired + stats.cancelled + adder.counts["returned"]
            if stats.added != ended or stats.pending:
                self.faults[f"the counters of {name} do not add up"] += 1
        self.pool.shutdown()
        self.account.settle(0, len(self.account.ends))
        self.counts["errors"] = sum(len(adder.failed) for adder in self.adders.values())
        if missing := self.counts["errors"] - len(self.reported):
            self.faults["errors not reported, or twice"] = missing
        if missing := self.counts["signals"] - self.counts["ran for signals"] - self.counts["signals returned"]:
            self.faults["lost or doubled in a signal handler"] = missing
        self.faults.update(self.account.faults | self.samples.faults)
