"""Timers under load for minutes or hours, with forks, signals, a clock that jumps, slow and failing callbacks; and an
account of every task."""

import faulthandler
import os
import random
import signal
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from accounts import Account
from adders import Adder, BatchAdder, JumpingAdder, Planned
from clocks import JumpingClock
from hwheel import SystemTimer
from lateness import Latenesses
from plan import Plan
from process import Samples

HANGS_S = 200
CHILD_S = 60
SHORT_LIVED = 300  # tasks of a timer that is made and closed
SHARES = {"own": 0.3, "inline": 0.14, "batches": 0.5, "pool": 0.01, "jumping": 0.05}  # of the tasks


class Load:
    """One soak. make_timer: SystemTimer, or a wrong variant that has to be found out."""

    def __init__(self, plan: Plan, make_timer: Callable[..., SystemTimer] = SystemTimer) -> None:
        self.plan = plan
        self.make_timer = make_timer
        self.chance = random.Random(plan.seed)
        self.account = Account(int(plan.pending * 8 + plan.tasks_per_s * 5) + 100_000)
        self.latenesses = Latenesses()
        self.samples = Samples(plan.warm_up_s)
        self.counts: Counter = Counter()
        self.faults: Counter = Counter()
        self.reported: list[type] = []
        self.clock = JumpingClock()
        self.pool = ThreadPoolExecutor(2)
        self.adders = self._adders()
        self.most_pending = 0
        self.begin = time.monotonic()

    def _timer(self, name: str, **options: Any) -> SystemTimer:
        return self.make_timer(name, on_error=self._error, **options)

    def _error(self, source: object, error: BaseException) -> None:
        self.reported.append(type(error))  # without its traceback, which would be kept
        if not isinstance(error, Planned):
            self.faults[f"error {error!r}"] += 1

    def _adders(self) -> dict[str, Adder]:
        def arguments(name: str, **options: Any) -> tuple:
            per_s = SHARES[name] * self.plan.tasks_per_s
            seed = self.chance.getrandbits(32)
            return self._timer(name, **options), self.account, self.latenesses, per_s, self.plan.life_s, seed

        return {
            "own": Adder(*arguments("own")),
            "inline": Adder(*arguments("inline", executor="inline", fork="keep")),
            "batches": BatchAdder(*arguments("batches")),
            "pool": Adder(*arguments("pool", executor=self.pool)),
            "jumping": JumpingAdder(self.clock, *arguments("jumping", clock=self.clock)),
        }

    @property
    def seconds(self) -> float:
        """So far."""
        return time.monotonic() - self.begin

    @property
    def pending(self) -> int:
        """In all timers."""
        return sum(len(adder.timer) for adder in self.adders.values())

    @property
    def operations(self) -> int:
        """Adds, ends, and tasks that were moved."""
        ended = self.account.added - self.pending
        return self.account.added + ended + sum(adder.counts["moved"] for adder in self.adders.values())

    # --- what happens meanwhile, all of it in the main thread ---

    def run(self, on_progress: Callable[["Load"], object] = lambda load: None) -> None:
        """Until its time is over, and to the end of all that was added."""
        usual = signal.signal(signal.SIGALRM, self._in_a_signal)
        self.begin = time.monotonic()
        try:
            signal.setitimer(signal.ITIMER_REAL, self.plan.signal_every_s, self.plan.signal_every_s)
            for adder in self.adders.values():
                adder.thread.start()
            self._let_it_run(on_progress)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, usual)
            for adder in self.adders.values():
                adder.stop.set()
        faulthandler.dump_traceback_later(HANGS_S, exit=True)
        self._end()
        faulthandler.cancel_dump_traceback_later()

    def _let_it_run(self, on_progress: Callable[["Load"], object]) -> None:
        every = max(0.2, self.plan.seconds / 500)
        due = {
            self._sample: every,
            self._jump: self.plan.jump_every_s,
            self._fork: self.plan.fork_every_s,
            self._short_lived: 1.0,
        }
        when = {what: self.seconds + gap for what, gap in due.items()}
        while self.seconds < self.plan.seconds:
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            for what, gap in due.items():
                if self.seconds >= when[what]:
                    when[what] = self.seconds + gap
                    what()
            on_progress(self)
            time.sleep(0.05)

    def _sample(self) -> None:
        self.samples.take()
        self.most_pending = max(self.most_pending, self.pending)

    def _jump(self) -> None:
        self.clock.jump(self.chance.choice([500.0, 50.0, -20.0, -300.0]))
        self.counts["jumps"] += 1

    def _in_a_signal(self, *_: object) -> None:
        """A handler adds, whatever the main thread is at; it has no place, because that may be the account's lock."""
        self.counts["signals"] += 1
        self.adders["own"].timer.call_later(0.001, self._count_signal)

    def _count_signal(self) -> None:
        self.counts["ran for signals"] += 1

    def _fork(self) -> None:
        """The child uses what it has of the timers, and is waited for."""
        pid = os.fork()
        if pid == 0:
            faulthandler.enable()
            signal.setitimer(signal.ITIMER_REAL, 0)
            status = 3
            try:
                status = self._child()
            finally:
                os._exit(status)
        self.counts["forks"] += 1
        give_up = time.monotonic() + CHILD_S
        while not (found := os.waitpid(pid, os.WNOHANG))[0]:
            if time.monotonic() > give_up:
                os.kill(pid, signal.SIGABRT)
                os.waitpid(pid, 0)
                self.faults["a child hangs"] += 1
                return
            time.sleep(0.005)
        if found[1]:
            self.faults[f"a child's status {found[1]}"] += 1

    def _child(self) -> int:
        """Of a timer whose pending tasks are dropped, and of one that keeps them."""
        ran = []
        began = time.monotonic()
        timers = [self.adders["own"].timer, self.adders["inline"].timer]
        for timer in timers:
            timer.call_later(0.01, lambda: ran.append(time.monotonic() - began))
            timer.call_many(array("q", [10]), lambda _: ran.append(time.monotonic() - began))
        while len(ran) < 4:
            if time.monotonic() > began + CHILD_S:
                return 1
            time.sleep(0.001)
        return 2 if min(ran) < 0.01 else 0

    def _short_lived(self) -> None:
        """A timer is made and closed, in one way after the other; it gets tasks by the way."""
        timer, account = self._timer("short-lived"), self.account
        places = account.places(SHORT_LIVED)
        for place in places:
            delay = self.chance.random() / 10
            account.deadlines[place] = time.monotonic() + delay
            timer.call_later(delay, self._run_short_lived, place)
        time.sleep(0.03)
        way = self.counts["timers closed"] % 3
        if way == 0:
            returned = timer.drain()
        elif way == 1:
            returned = timer.close()
        else:
            account.expect(places[0], np.zeros(len(places)))  # from now on
            returned = timer.close(run_pending=True)
        for task in returned:
            account.end_all(task.args)
        self.counts["timers closed"] += 1

    def _run_short_lived(self, place: int) -> None:
        self.account.run(place, time.monotonic())

    # --- the end ---

    def _end(self) -> None:
        """What is pending runs, or comes back; then every place is counted."""
        for adder in self.adders.values():
            adder.thread.join()
        for name, adder in self.adders.items():
            how = adder.timer.close if name in ("own", "batches") else lambda: adder.timer.drain(2)  # noqa: B023
            returned_ones = how()
            adder.take_back(returned_ones)
            self.counts["signals returned"] += sum(getattr(one, "args", 1) == () for one in returned_ones)
            stats = adder.timer.stats()
            returned = adder.counts["returned"]
            if stats.added != stats.expired + stats.cancelled + stats.pending + returned or stats.pending:
                self.faults[f"the counters of {name} do not add up"] += 1
        self.pool.shutdown()
        self.account.close()
        for adder in self.adders.values():
            self.counts.update(adder.counts)
        self.counts["threads left"] = threading.active_count() - 1
        self.faults.update({what: count for what, count in self.account.faults.items() if count})
        self.counts["errors"] = sum(len(adder.failing) for adder in self.adders.values())
        if missing := self.counts["errors"] - len(self.reported):
            self.faults["errors not reported, or twice"] = missing
        if missing := self.counts["signals"] - self.counts["ran for signals"] - self.counts["signals returned"]:
            self.faults["lost or doubled in a signal's handler"] = missing
        self.faults.update(self.samples.faults())
