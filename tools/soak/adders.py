"""Who adds to a timer, at a steady rate, and accounts for what becomes of it."""

import random
import threading
import time
from array import array
from collections import Counter, deque

import numpy as np

from accounts import Account
from clocks import JumpingClock
from hwheel import SystemTimer, TimerBatch, TimerClosed, TimerTask
from lateness import Latenesses

SLICE_S = 0.005
SLOW_S = 0.002


class Planned(Exception):
    """What callbacks raise on purpose."""


class Adder:
    """One thread that adds tasks to one timer, moves some, and cancels those that are old enough and still there."""

    def __init__(
        self, timer: SystemTimer, account: Account, latenesses: Latenesses, per_s: float, life_s: float, seed: int
    ) -> None:
        self.timer = timer
        self.account = account
        self.latenesses = latenesses
        self.per_s = per_s
        self.life_s = life_s
        self.chance = random.Random(seed)
        self.counts: Counter = Counter()
        self.failing: list[int] = []  # a 0 each, because threads of a pool append without a race
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._pace, name=f"adder-{timer.name}")
        self._young: deque = deque()

    def _pace(self) -> None:
        """What falls behind is made up for, but of a machine that stood still no more than a second."""
        owed, last = 0.0, time.monotonic()
        while not self.stop.is_set():
            now = time.monotonic()
            owed = min(owed + (now - last) * self.per_s, self.per_s)
            last = now
            if owed >= self.at_once:
                owed -= self.at_once
                self.add()
            else:
                time.sleep(SLICE_S)

    at_once = 100

    def add(self) -> None:
        """So many as are added at once."""
        account, call_later, run, young = self.account, self.timer.call_later, self.run, self._young
        longest_s = 2 * self.life_s
        for place in account.places(self.at_once):
            # A tenth is due soon, of the others half before they are old, when they are cancelled.
            delay = self.chance.random() * (longest_s if place % 10 else 0.05)
            account.deadlines[place] = time.monotonic() + delay
            young.append((place, call_later(delay, run, place)))
        keep = self.life_s * self.per_s
        while len(young) > keep:
            self.old(*young.popleft())

    def old(self, place: int, task: TimerTask) -> None:
        """Every tenth gets a little more time, the others are cancelled."""
        account = self.account
        if place % 10 == 5:
            delay = self.chance.random() / 10
            deadline = time.monotonic() + delay
            account.deadlines[place] = min(account.deadlines[place], deadline)  # it may run at this moment
            if task.reschedule(delay):
                account.deadlines[place] = deadline
                self.counts["moved"] += 1
        elif task.cancel():
            account.end(place)
            self.counts["cancelled"] += 1

    def run(self, place: int) -> None:
        """The callback. Some are slow, some fail, some add others."""
        now = time.monotonic()
        self.account.run(place, now)
        self.latenesses.add(now - self.account.deadlines[place])
        if place % 101 == 0:
            self.odd(place)

    def odd(self, place: int) -> None:
        """What few callbacks do."""
        if place % 10_100 == 0:
            self.counts["slow"] += 1
            time.sleep(SLOW_S)
        elif place % 1010 == 0:
            self.failing.append(0)
            raise Planned
        elif place % 505 == 0:
            self.counts["added by callbacks"] += 1
            [other] = self.account.places(1)
            self.account.deadlines[other] = time.monotonic() + 0.01
            try:
                self.timer.call_later(0.01, self.account_for, other)
            except TimerClosed:  # at the end of the soak
                self.account.end(other)

    def account_for(self, place: int) -> None:
        """The callback of what a callback has added."""
        self.account.run(place, time.monotonic())

    def take_back(self, returned: list[TimerTask | TimerBatch]) -> None:
        """What close() returns has ended so."""
        for one in returned:
            self.account.end_all(one.args[:1])  # a place, or none
            self.counts["returned"] += 1


class BatchAdder(Adder):
    """The same in bulk. Half of each batch is cancelled when it is old."""

    at_once = 2000

    def add(self) -> None:
        """A batch."""
        first = self.account.places(self.at_once)[0]
        delays = (np.random.default_rng(self.chance.getrandbits(32)).random(self.at_once) * 2000 * self.life_s).astype(
            "q"
        )
        self.account.expect(first, time.monotonic() + delays / 1000)
        self._young.append((first, self.timer.call_many(delays, Run(self, first))))
        while len(self._young) > self.life_s * self.per_s / self.at_once:
            self.old(*self._young.popleft())

    def old(self, first: int, batch: TimerBatch) -> None:
        """Which of its timers are cancelled is not said by a number, so those are taken that are pending with no other
        thread's help: each by itself."""
        cancel, end = batch.cancel, self.account.end
        one = array("q", [0])
        for index in batch.indices()[::2]:
            one[0] = index
            if cancel(one):
                end(first + index)
                self.counts["cancelled"] += 1

    def take_back(self, returned: list[TimerTask | TimerBatch]) -> None:
        """Batches among them say which of their timers have not run."""
        for one in returned:
            places = one.callback.first + np.array(one.indices())
            self.account.end_many(places)
            self.counts["returned"] += len(places)


class Run:
    """The callback of a batch, which knows where its places begin."""

    def __init__(self, adder: BatchAdder, first: int) -> None:
        self.adder = adder
        self.first = first

    def __call__(self, indices: array) -> None:
        now = time.monotonic()
        places = self.first + np.array(indices)
        self.adder.latenesses.add_all(now - self.adder.account.run_many(places, now))


class JumpingAdder(Adder):
    """Tasks on a clock that jumps."""

    def __init__(self, clock: JumpingClock, *arguments: object) -> None:
        super().__init__(*arguments)
        self.clock = clock

    def add(self) -> None:
        """Each with the age of the clock."""
        clock, account = self.clock, self.account
        for place in account.places(self.at_once):
            delay = self.chance.random() * 2 * self.life_s
            with clock.still:
                account.deadlines[place] = clock() / 1000 + delay
                self._young.append((place, self.timer.call_later(delay, self.run_at, place, clock.age)))
        while len(self._young) > self.life_s * self.per_s:
            self.old(*self._young.popleft())

    def old(self, place: int, task: TimerTask) -> None:
        """Cancelled."""
        if task.cancel():
            self.account.end(place)
            self.counts["cancelled"] += 1

    def run_at(self, place: int, age: int) -> None:
        """The callback."""
        self.account.run(place, self.clock.seconds_since(age))
