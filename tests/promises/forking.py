"""A child that is forked somewhere in the middle, and then used for real. What is wrong is printed, a line each."""

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
from array import array
from concurrent.futures import ThreadPoolExecutor

from account import Account
from hwheel import ManualTimer, SystemTimer
from waiting import Waits

CHILD_S = 20


def say(text):
    os.write(1, f"{text}\n".encode())


class ForkablePool:
    """An executor that makes new threads in a child; concurrent.futures' own does not."""

    def __init__(self):
        self._pools = {}

    def submit(self, function, *args):
        pid = os.getpid()
        if pid not in self._pools:  # only the timer's one thread submits
            self._pools[pid] = ThreadPoolExecutor(2)
        return self._pools[pid].submit(function, *args)


class World(Waits):
    def __init__(self, executor, keep, **options):
        self.account = Account()
        self.children = []
        self.ending = "exit"
        self.started = []
        self.delays = {}  # number of a batch -> what it was added with
        self.top = os.getpid()
        self.reaper = options.get("reaper", True)
        if executor == "manual":
            self.timer = ManualTimer()
        else:
            chosen = {"own": None, "inline": "inline", "pool": ForkablePool()}[executor]
            self.timer = SystemTimer(executor=chosen, fork="keep" if keep else "drop", **options)
        self.executor = executor
        self.keep = keep or executor == "manual"

    def go_on(self):
        if isinstance(self.timer, ManualTimer):
            with contextlib.suppress(RuntimeError):  # inside of an advance, which goes on by itself
                self.timer.advance(0.01)
        elif not self.reaper and not self.timer.closed:
            self.timer.advance_clock(1)

    def fork(self, **how):
        """Forks; in the child uses the timer, and ends as `ending` says; "return": returns True."""
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            self.children.append(pid)
            return False
        faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
        signal.alarm(CHILD_S)
        self.children.clear()
        try:
            use_for_real(self, **how)
        except SystemExit:
            raise
        except BaseException as error:
            say(f"in the child: {error!r}")
            raise
        if self.ending == "_exit":
            os._exit(0)
        if self.ending == "exit":
            sys.exit(0)
        return True

    def join_children(self):
        for pid in self.children:
            _, status = os.waitpid(pid, 0)
            if status:
                say(f"a child ended with status {status}")

    def end(self):
        """In the parent: nothing is lost."""
        account, timer = self.account, self.timer
        account.close(timer)
        self.join_children()
        for fault in account.faults(timer):
            say(f"in the parent: {fault}")


def fill(world):
    """What the parent has pending."""
    account, timer = world.account, world.timer
    account.later(timer, 3600)
    account.later(timer, 0.3)
    delays = array("q", [300, 310, 7_200_000])
    account.many(timer, delays)
    world.delays[max(account.lengths)] = delays
    account.again(timer, 1800)


def use_for_real(world, *, running=(), in_flight=0, closed=False, every=None):
    """running: tasks in whose callbacks this is, which will be counted when they end. in_flight: how many may
    have been on their way to a callback of the parent. every: a task of call_every was running, and has to go on."""
    account = world.account
    before = [*account.ran]
    every_before = len(account.every_ran)
    if not closed:
        never_early(world)
    if every is not None and world.keep and not closed:
        if not world.wait_for(lambda: len(account.every_ran) >= every_before + 2):
            say("in the child: call_every does not go on")
    near = {n for n, one in account.tasks.items() if n not in account.lengths and one.delay_ms < 5000} - account.every
    near |= {(n, i) for n, delays in world.delays.items() for i, delay in enumerate(delays) if delay < 5000}
    if world.keep and not closed:
        world.wait_for(lambda: len(near - {*account.ran} - {*running}) <= in_flight, 10)
        missing = near - {*account.ran} - {*running}
        if len(missing) > in_flight:
            say(f"in the child: {len(missing)} of {len(near)} kept ones did not run")
    else:
        time.sleep(0.05)
        if more := {*account.ran} - {*before} - {*world_new(world)}:
            say(f"in the child: {len(more)} ran that had been dropped")
    twice = {key for key in account.ran if account.ran.count(key) > 1} if len(account.ran) < 5000 else set()
    if twice or len(account.ran) != len({*account.ran}):
        say(f"in the child: ran twice: {twice}")
    if world.ending == "exit unclosed":
        sys.exit(0)
    if world.ending == "return unclosed":
        return
    check_close(world)


def world_new(world):
    return getattr(world, "new", ())


def never_early(world):
    """New timers in the child keep their time."""
    timer = world.timer
    world.new = []
    ran = {}
    begin = timer.time()
    new = [
        timer.call_later(0.2, lambda: ran.setdefault("call_later", timer.time())),
        timer.call_at(begin + 0.15, lambda: ran.setdefault("call_at", timer.time())),
    ]
    every = timer.call_every(0.1, lambda: ran.setdefault("call_every", timer.time()))
    batch = timer.call_many(array("q", [200]), lambda indices: ran.setdefault("call_many", timer.time()))
    if not world.wait_for(lambda: len(ran) == 4):
        say(f"in the child: of four new timers only these ran: {[*ran]}")
    every.cancel()
    for what, after in [("call_later", 0.2), ("call_at", 0.15), ("call_every", 0.1), ("call_many", 0.2)]:
        if what in ran and ran[what] - begin < after - 1e-6:
            say(f"in the child: {what} of {after} s ran after {ran[what] - begin:.4f} s")
    del new, batch


def check_close(world):
    account, timer = world.account, world.timer
    far = None if timer.closed else timer.call_later(3600, int)
    pending = len(timer)
    stats = timer.stats()
    returned = timer.close()
    count = sum(len(one.indices()) if hasattr(one, "indices") else 1 for one in returned)
    if far is not None and far not in returned:
        say("in the child: close() did not return a new task")
    if world.executor != "pool" and count != pending:  # a pool may yet hand some in
        say(f"in the child: close() returned {count} of {pending}")
    if not world.keep and far is not None and count > 1:
        say(f"in the child: close() returned {count - 1} that had been dropped")
    if timer.close():
        say("in the child: a second close() returned something")
    after = timer.stats()
    count += len(account.returned)  # before the fork
    if after.pending or after.added != after.expired + after.cancelled + count:
        say(f"in the child: counters with {count} returned: {stats}, after close() {after}")
    if (left := account.threads_left()) and threading.current_thread().name not in left:
        say(f"in the child: threads are left: {left}")
