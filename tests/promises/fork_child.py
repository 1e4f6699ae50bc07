"""A forked child that uses the timer of its parent. Parent and child print the faults, one a line."""

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
from hwheel import ManualTimer, SystemTimer, TimerTask
from waiting import Waits

CHILD_TIMEOUT_S = 20


def report(text):
    """Print in one system call, because parent and child write to the same file."""
    os.write(1, f"{text}\n".encode())


class ForkablePool:
    """A thread pool that starts new threads in a child. ThreadPoolExecutor does not."""

    def __init__(self):
        self._pools = {}

    def submit(self, function, *args):
        pid = os.getpid()
        if pid not in self._pools:  # only the timer's one thread submits
            self._pools[pid] = ThreadPoolExecutor(2)
        return self._pools[pid].submit(function, *args)


class World(Waits):
    """A timer, an account of its tasks, and the children that were forked."""

    def __init__(self, executor, keep, **options):
        self.account = Account()
        self.children = []
        self.forks = 0
        self.ending = "exit"  # of a child: "exit", "return", either with " unclosed" (without close()), or "grandchild"
        self.delays = {}  # number of a batch -> its delays
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
            with contextlib.suppress(RuntimeError):  # inside advance(), which continues on its own
                self.timer.advance(0.01)
        elif not self.reaper and not self.timer.closed:
            self.timer.advance_clock(1)

    def fork(self, **how):
        """Fork. The child checks the timer. Then it exits, or returns True if `ending` begins with "return"."""
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            self.add_child(pid)
            return False
        faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
        signal.alarm(CHILD_TIMEOUT_S)
        self.children.clear()
        try:
            check_child(self, **how)
        except SystemExit:
            raise
        except BaseException as error:
            report(f"in the child: {error!r}")
            raise
        if self.ending == "_exit":
            os._exit(0)
        if self.ending == "exit":
            sys.exit(0)
        return True

    def add_child(self, pid):
        self.children.append(pid)
        self.forks += 1

    def join_children(self):
        for pid in self.children:
            _, status = os.waitpid(pid, 0)
            if status:
                report(f"a child ended with status {status}")

    def end(self):
        """Check in the parent that no task was lost."""
        if self.forks == 0:
            report("nothing was forked")
        account, timer = self.account, self.timer
        account.close(timer)
        self.join_children()
        for fault in account.faults(timer):
            report(f"in the parent: {fault}")


def fill(world):
    """Add tasks of each kind in the parent."""
    account, timer = world.account, world.timer
    account.later(timer, 3600)
    account.later(timer, 0.3)
    delays = array("q", [300, 310, 7_200_000])
    account.many(timer, delays)
    world.delays[max(account.lengths)] = delays
    account.again(timer, 1800)


def check_child(world, *, running=(), in_flight=0, closed=False, every=None):
    """Check in the child that the timer works.

    Args:
        running: Tasks whose callbacks ran at the fork. The child does not wait for them.
        in_flight: How many tasks the parent may have been dispatching.
        closed: Whether the timer is closed.
        every: If not None, a periodic task was running, and must go on.
    """
    account = world.account
    before = {*account.ran}
    every_before = len(account.every_ran)
    if not closed:
        check_never_early(world)
    if every is not None and world.keep and not closed:
        if not world.wait_for(lambda: len(account.every_ran) >= every_before + 2):
            report("in the child: call_every does not go on")
    if world.keep and not closed:
        check_kept_tasks(world, running, in_flight)
    else:
        time.sleep(0.05)
        if more := {*account.ran} - before:
            report(f"in the child: {len(more)} dropped tasks ran")
    if len(account.ran) != len({*account.ran}):
        report(f"in the child: {len(account.ran) - len({*account.ran})} tasks ran twice")
    if world.ending == "exit unclosed":
        sys.exit(0)
    if world.ending != "return unclosed":
        check_close(world)


def check_kept_tasks(world, running, in_flight):
    """Check that the parent's tasks also run in the child."""
    account = world.account
    # Numbers of tasks, and (number, index) of timers in batches.
    soon = {n for n, one in account.tasks.items() if n not in account.lengths and one.delay_ms < 5000} - account.every
    soon |= {(n, i) for n, delays in world.delays.items() for i, delay in enumerate(delays) if delay < 5000}
    soon -= {*running}
    world.wait_for(lambda: len(soon - {*account.ran}) <= in_flight, 10)
    missing = soon - {*account.ran}
    if len(missing) > in_flight:
        report(f"in the child: {len(missing)} of {len(soon)} kept tasks did not run")


def check_never_early(world):
    """Check that new tasks in the child do not run early."""
    timer = world.timer
    ran = {}
    now = timer.time if isinstance(timer, ManualTimer) else time.monotonic
    begin = now()
    new = [
        timer.call_later(0.2, lambda: ran.setdefault("call_later", now())),
        timer.call_at(timer.time() + 0.2, lambda: ran.setdefault("call_at", now())),
        timer.add(TimerTask(200, lambda: ran.setdefault("add", now()))),
        timer.call_later(3600, lambda: ran.setdefault("reschedule", now())),
    ]
    new[-1].reschedule(0.2)
    every = timer.call_every(0.2, lambda: ran.setdefault("call_every", now()))
    batch = timer.call_many(array("q", [200]), lambda indices: ran.setdefault("call_many", now()))
    if not world.wait_for(lambda: len(ran) == 6):
        report(f"in the child: only these of six new tasks ran: {[*ran]}")
    every.cancel()
    for what, ran_at in ran.items():
        if ran_at - begin < 0.2 - 1e-6:
            report(f"in the child: {what} of 0.2 s ran after {ran_at - begin:.4f} s")
    del new, batch


def check_close(world):
    account, timer = world.account, world.timer
    far = None if timer.closed else timer.call_later(3600, int)
    pending = len(timer)
    stats = timer.stats()
    returned = timer.close()
    count = sum(len(one.indices()) if hasattr(one, "indices") else 1 for one in returned)
    if far is not None and far not in returned:
        report("in the child: close() did not return a new task")
    if world.executor != "pool" and count != pending:  # the pool may still submit some
        report(f"in the child: close() returned {count} of {pending}")
    if not world.keep and far is not None and count > 1:
        report(f"in the child: close() returned {count - 1} dropped tasks")
    if timer.close():
        report("in the child: the second close() returned tasks")
    after = timer.stats()
    all_returned = count + len(account.returned)  # also before the fork
    if after.pending or after.added != after.expired + after.cancelled + all_returned:
        report(f"in the child: counters with {all_returned} returned: {stats}, after close() {after}")
    if (left := account.threads_left()) and threading.current_thread().name not in left:
        report(f"in the child: threads are left: {left}")
