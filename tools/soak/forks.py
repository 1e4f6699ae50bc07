"""`forks.py COUNT SEED`: forks under load, from the main thread, from callbacks and from a handler.

Threads add, cancel and let fall due on timers of all kinds. Each child uses them, and comes to another end. Prints a
line for each child that has ended, and at last, as JSON, what became of them and of the parent's tasks.
"""

import atexit
import faulthandler
import json
import os
import random
import signal
import sys
import threading
import time
from array import array
from collections import Counter, deque
from concurrent.futures import Future
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np

import hwheel
from accounts import Account
from hwheel.purgatory import DelayedFuturePurgatory

# Without a GIL CPython 3.13 gives the lock of an object to a thread that has waited for it also when that cannot run,
# because a fork has stopped all others: in the child that object is locked for ever. Plain objects are, too.
HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
PATIENCE_S = 60
AT_ONCE = 3  # children
TOP = os.getpid()
DROPPED_RAN, NOT_ALL_RAN, EARLY = 71, 72, 73  # statuses of children that are not as promised
DELAYS_MS = array("q", [1, 2, 3, 5, 8, 3_600_000] * 20)
FAR_OFF = array("q", range(5, len(DELAYS_MS), 6))


class World:
    """The timers of a process, and threads that keep them busy."""

    def __init__(self) -> None:
        executors: tuple = (None, "inline")
        self.dropped = [hwheel.SystemTimer("dropped", executor=one) for one in executors]
        self.kept = [hwheel.SystemTimer("kept", executor=one, fork="keep") for one in executors]
        self.timers = self.dropped + self.kept
        self.purgatory = DelayedFuturePurgatory(timer=self.dropped[0])
        self.entries: hwheel.ExpiringDict = hwheel.ExpiringDict(0.005)
        self.account = Account(4_000_000)
        self.stop = threading.Event()
        self.threads = [
            threading.Thread(target=self._repeat, args=(work, timer), daemon=True)
            for timer in self.timers
            for work in (self.add_tasks, self.add_batch, self.use_others)
        ]

    def _repeat(self, work, timer) -> None:
        while not self.stop.is_set():
            work(timer)
            time.sleep(0.002)

    def add_tasks(self, timer: hwheel.SystemTimer) -> None:
        """Half of them are cancelled, if they are not faster."""
        tasks = []
        for place in self.account.places(20):
            delay = random.random() / 50
            self.account.deadlines[place] = time.monotonic() + delay
            tasks.append((place, timer.call_later(delay, self.ran, place, timer in self.dropped)))
        for place, task in tasks[::2]:
            if task.cancel():
                self.account.end(place)

    def ran(self, place: int, dropped: bool) -> None:
        """A task of the parent's. In a child only what was kept may run."""
        if os.getpid() == TOP:
            self.account.run(place, time.monotonic())
        elif dropped:
            os._exit(DROPPED_RAN)

    def add_batch(self, timer: hwheel.SystemTimer) -> None:
        """The same in bulk, with some that would come much later."""
        first = self.account.places(len(DELAYS_MS))[0]
        for index, delay_ms in enumerate(DELAYS_MS):
            self.account.deadlines[first + index] = time.monotonic() + delay_ms / 1000

        def run(indices: array) -> None:
            if os.getpid() == TOP:
                self.account.run_many(first + np.array(indices), time.monotonic())

        batch = timer.call_many(DELAYS_MS, run)
        time.sleep(0.004)
        assert batch.cancel(FAR_OFF) == len(FAR_OFF)
        self.account.end_many(first + np.array(FAR_OFF))

    def use_others(self, timer: hwheel.SystemTimer) -> None:
        """What is built on timers."""
        self.entries[random.randrange(1000)] = timer
        self.purgatory.try_complete_else_watch(5, [Future()], int)
        one = hwheel.Timer(0.003, int)
        one.daemon = True
        one.start()

    def end(self) -> None:
        """Of the parent: all has come to its end."""
        self.stop.set()
        for thread in self.threads:
            thread.join()
        self.purgatory.close()
        for timer in self.timers:
            timer.drain()
        self.account.close()


# --- a child --------------------------------------------------------------------------------------------------------


def use(world: World) -> None:
    """Everything works in the child, on time."""
    ran: deque = deque()
    began = time.monotonic()
    for timer in world.timers:
        timer.call_later(0.004, lambda: ran.append(time.monotonic()))
        timer.call_many(array("q", [4]), lambda _: ran.append(time.monotonic()))
        assert timer.call_later(3600, print).cancel()
    one = hwheel.Timer(0.004, lambda: ran.append(time.monotonic()))
    one.start()
    if HAS_GIL:
        world.entries["child"] = 1
    while len(ran) < 2 * len(world.timers) + 1 or world.entries:
        time.sleep(0.001)
        if time.monotonic() > began + PATIENCE_S:
            os._exit(NOT_ALL_RAN)
    if min(ran) < began + 0.004:
        os._exit(EARLY)


def busy_until(world: World, number: int) -> NoReturn:
    """Adds and cancels, until a signal comes that a timer sends."""
    world.timers[0].call_later(random.random() / 100, os.kill, os.getpid(), number)
    while True:
        world.kept[0].call_later(60, print).cancel()
        world.dropped[1].call_many(DELAYS_MS, len).cancel()


def end_in_a_callback(world: World, how) -> NoReturn:
    world.dropped[0].call_later(0, how, 0)
    time.sleep(PATIENCE_S)
    os._exit(NOT_ALL_RAN)


def sys_exit_in_a_callback(world: World) -> NoReturn:
    """Which ends nothing, as in a thread."""
    after = threading.Event()
    world.dropped[0].call_later(0, sys.exit, 5)
    world.dropped[0].call_later(0.001, after.set)
    if not after.wait(PATIENCE_S):
        os._exit(NOT_ALL_RAN)
    sys.exit(0)


def exit_that_adds(world: World) -> NoReturn:
    """In an exit handler, which runs before the package's own: it is waited for there."""

    def late() -> None:
        ran = threading.Event()
        world.dropped[1].call_later(0.001, ran.set)
        if not ran.wait(PATIENCE_S):
            os._exit(NOT_ALL_RAN)

    atexit.register(late)
    sys.exit(0)


def exit_by_a_signal(world: World) -> NoReturn:
    def handler(*_: object) -> NoReturn:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, handler)
    busy_until(world, signal.SIGTERM)


def closed(world: World) -> NoReturn:
    for timer in world.timers:
        timer.close(run_pending=timer in world.dropped)
    sys.exit(0)


ENDS = {
    "os._exit": (lambda world: os._exit(0), 0),
    "os._exit in a callback": (lambda world: end_in_a_callback(world, os._exit), 0),
    "sys.exit": (lambda world: sys.exit(0), 0),
    "sys.exit in a callback": (sys_exit_in_a_callback, 0),
    "sys.exit after close()": (closed, 0),
    "sys.exit, with adds at exit": (exit_that_adds, 0),
    "sys.exit by a signal": (exit_by_a_signal, 0),
    "SIGTERM": (lambda world: busy_until(world, signal.SIGTERM), -signal.SIGTERM),
    "SIGKILL": (lambda world: busy_until(world, signal.SIGKILL), -signal.SIGKILL),
}


# --- the parent -----------------------------------------------------------------------------------------------------


class Forks:
    """Children, started and waited for."""

    def __init__(self, world: World, count: int) -> None:
        self.world = world
        self.count = count
        self.wrong: Counter = Counter()
        self.ended = 0
        self.begun = 0
        self.alive: dict[int, tuple[str, int, float]] = {}
        self.forked = threading.Event()

    def fork(self, *_: object) -> None:
        """In the thread, the callback or the handler where it is called."""
        name = [*ENDS][self.begun % len(ENDS)]
        pid = os.fork()
        if pid == 0:
            signal.setitimer(signal.ITIMER_REAL, 0)
            use(self.world)
            ENDS[name][0](self.world)
        self.begun += 1
        self.alive[pid] = (name, ENDS[name][1], time.monotonic() + PATIENCE_S)
        self.forked.set()

    def run(self) -> None:
        """All of them, some at a time."""
        signal.signal(signal.SIGALRM, self.fork)
        while self.ended < self.count:
            if self.begun < self.count and len(self.alive) < AT_ONCE:
                self.forked.clear()
                [
                    self.fork,
                    lambda: self.world.timers[self.begun % 4].call_later(0.001, self.fork),
                    lambda: signal.setitimer(signal.ITIMER_REAL, 0.0005),
                ][self.begun % 3]()
                while not self.forked.is_set():  # an interruptible wait, in which the handler may fork
                    self.world.add_tasks(self.world.dropped[0])
            for pid in [*self.alive]:
                self.reap(pid)
            time.sleep(0.001)

    def reap(self, pid: int) -> None:
        """Looks whether a child has ended, and how; one that hangs says where, and is ended."""
        name, expected, deadline = self.alive[pid]
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            if code != expected:
                self.wrong[f"{name}: status {code}"] += 1
        elif time.monotonic() > deadline:
            self.wrong[f"{name}: hangs"] += 1
            os.kill(pid, signal.SIGABRT)
            time.sleep(2)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        else:
            return
        del self.alive[pid]
        self.ended += 1
        print(self.ended, flush=True)


def main() -> None:
    """The program."""
    count, seed = map(int, sys.argv[1:])
    random.seed(seed)
    faulthandler.enable()
    sys.setswitchinterval(1e-4)
    world = World()
    forks = Forks(world, count)
    for thread in world.threads:
        thread.start()
    forks.run()
    world.end()
    account = world.account
    print(json.dumps({"ended": forks.ended, "wrong": forks.wrong, "tasks": account.added, **account.faults}))


if __name__ == "__main__":
    main()
