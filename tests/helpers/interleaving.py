"""A scheduler that chooses which thread runs, for the Python half of hwheel.

A scenario is a function that starts threads, joins them, and checks the result. Its threads are real, but only one
of them runs at a time. Each line of hwheel's Python code and of the scenario is a step, and each operation on a lock.
Before a step, another thread may go on. Locks, `Thread.join()`, `time.sleep()`, and the clock belong to the scheduler.
So it notices when all threads wait. Then time passes until the next wait ends, or the scenario fails.

A seed chooses the steps at which the running thread is preempted, and the thread that goes on where several can. The
same seed repeats the schedule.
"""

import _thread
import concurrent.futures.thread  # noqa: F401  # patched below
import contextlib
import os
import queue
import random
import re
import selectors
import sys
import threading
from unittest import mock

import hwheel
import hwheel.threading.timer  # patched below

HERE = os.path.dirname(hwheel.__file__)
WATCHED = tuple(os.path.join(HERE, folder) for folder in ("cachetools", "threading", "timers"))
UNWATCHED = "lifecycle.py"  # finalizers run there, perhaps under a lock of the standard library
LONGEST = 20_000  # steps: a longer schedule makes no progress
HANG_S = 30  # of the real time, in code that the scheduler does not control

schedule = None  # the running one
real_join = threading.Thread.join


class Abandoned(BaseException):
    """Ends the threads of a scenario that has failed."""


class Member:
    """A thread of a scenario."""

    def __init__(self, name):
        self.name = name
        self.ident = None
        self.turn = _thread.allocate_lock()  # released to let the thread go on
        self.turn.acquire()
        self.is_ready = None  # asked while it waits; None: it can go on
        self.ends = lambda: None  # asked for the time at which its wait ends
        self.where = ""
        self.over = False

    def can_go_on(self, now):
        if self.over:
            return False
        return self.is_ready is None or self.is_ready() or ((end := self.ends()) is not None and end <= now)


class Schedule:
    """The threads, the time, and the choices of one run."""

    def __init__(self, seed, changes, files):
        self.random = random.Random(seed)
        self.changes = changes  # steps at which the running thread is preempted
        self.files = files
        self.now = 1000.0
        self.steps = 0
        self.switches = []
        self.failure = None
        self.members = {}  # by thread
        self.main = self.me = self.members[threading.current_thread()] = Member("main")
        self.main.ident = _thread.get_ident()

    def is_mine(self):
        """Return True if the scheduler controls the current thread."""
        return self.me.ident == _thread.get_ident()

    def wait(self, is_ready=None, timeout=None, ends=None):
        """Let another thread go on, or this one if it is ready. ends: returns the time, instead of a timeout."""
        me = self.me
        self.check()
        self.steps += 1
        is_change = self.steps in self.changes
        if is_ready is None and not is_change:
            return
        if self.steps > LONGEST:
            self.fail("no progress")
        end = None if timeout is None else self.now + timeout
        me.is_ready, me.ends = is_ready, ends or (lambda: end)
        self.go_to(self.choose(me, is_change), me)
        me.is_ready, me.ends = None, lambda: None

    def choose(self, me, is_change):
        """Return the thread that goes on. A change preempts the current one, and sometimes lets time pass."""
        if is_change and self.random.random() < 0.3:
            self.pass_time()
        while not (able := [member for member in self.members.values() if member.can_go_on(self.now)]):
            if not self.pass_time():
                self.fail("deadlock")
        if me in able and not is_change:
            return me
        return self.random.choice([member for member in able if member is not me] or able)

    def pass_time(self):
        """Let the time pass until the next wait ends. Return False if none ends."""
        ends = [end for member in self.members.values() if not member.over and (end := member.ends()) is not None]
        self.now = max(self.now, min(ends, default=0) + 1e-6)  # a little later, because floats are not exact
        return bool(ends)

    def go_to(self, member, me):
        if member is me:
            return
        self.switches.append(f"{self.steps} {member.name} {member.where}")
        self.me = member
        member.turn.release()
        if not me.over:
            if not me.turn.acquire(True, HANG_S if me is self.main else -1):
                self.fail(f"{self.me.name} hangs in code that is not controlled")
            self.check()

    def check(self):
        """End the current thread if the scenario has failed."""
        if self.failure is not None:
            raise AssertionError(self.failure) if _thread.get_ident() == self.main.ident else Abandoned

    def fail(self, what):
        """End all threads."""
        states = [f"{member.name} {member.where}" for member in self.members.values() if not member.over]
        self.failure = f"{what}: {', '.join(states)}"
        for member in self.members.values():
            if member is not self.me and member.turn.locked():
                member.turn.release()
        self.check()

    def trace(self, frame, event, arg):
        path = frame.f_code.co_filename
        is_watched = path.startswith(WATCHED) and not path.endswith(UNWATCHED)
        return self.trace_line if is_watched or path in self.files else None

    def trace_line(self, frame, event, arg):
        if event == "line" and self.is_mine():
            self.me.where = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
            self.wait()
        return self.trace_line


# --- replacements for the waits of the standard library -------------------------------------------------------------


class Lock:
    """A threading.Lock of the scheduler."""

    def __init__(self):
        self._taken = False

    def acquire(self, blocking=True, timeout=-1):
        if schedule is not None and schedule.is_mine():
            schedule.wait()
            if self._taken and blocking:
                schedule.wait(lambda: not self._taken, None if timeout < 0 else timeout)
        if self._taken:
            return False
        self._taken = True
        return True

    def release(self):
        if not self._taken:
            raise RuntimeError("release unlocked lock")
        self._taken = False

    def locked(self):
        return self._taken

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *error):
        self.release()


class Selector(selectors.SelectSelector):
    """The selector of an event loop."""

    def select(self, timeout=None):
        select = super().select
        if timeout is None or timeout > 0:
            schedule.wait(lambda: bool(select(0)), timeout)
        return select(0)


class SteppedTimer(hwheel.SystemTimer):
    """A SystemTimer whose threads wait for the time of the scheduler."""

    _is_told = False  # to stop

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings, clock=lambda: schedule.now * 1000)

    def _can_go_on(self):
        deadline = self.next_deadline
        return self._is_told or (deadline is not None and deadline <= self.time())

    def _stop(self, drain):
        super()._stop(drain)
        self._is_told = True

    def _reap(self, generation):
        schedule.wait(self._can_go_on, ends=lambda: self.next_deadline)
        if self._is_told:
            return super()._reap(generation)
        super()._advance_clock(0)
        return True

    def _advance_clock(self, timeout_ns):
        schedule.wait(self._can_go_on, timeout_ns / 1e9)
        return super()._advance_clock(0)


def start(thread, start=threading.Thread.start):
    name = re.sub(r"\d+", "", thread.name)  # without the counters of the process
    member = schedule.members[thread] = Member(f"{name} {len(schedule.members)}")
    try:
        start(thread)
    except BaseException:
        member.over = member.ident is None
        raise


def run(thread, run=threading.Thread._bootstrap_inner):
    mine, member = schedule, schedule.members[thread]
    member.turn.acquire()
    member.ident = _thread.get_ident()
    sys.settrace(mine.trace)
    try:
        mine.check()
        run(thread)
        member.over = True
        mine.go_to(mine.choose(None, False), member)
    except Abandoned:
        pass
    finally:
        sys.settrace(None)
        member.over = True


def join(thread, timeout=None):
    schedule.wait(lambda: schedule.members[thread].over, timeout)


def is_alive(thread):
    return thread in schedule.members and not schedule.members[thread].over


def excepthook(args):
    if args.exc_type is not Abandoned:
        schedule.fail(repr(args.exc_value))


REPLACED = {
    "threading.excepthook": excepthook,
    "threading.Lock": Lock,
    "threading._allocate_lock": Lock,
    "threading.RLock": threading._PyRLock,
    "threading._time": lambda: schedule.now,
    "threading.Thread.start": start,
    "threading.Thread.join": join,
    "threading.Thread.is_alive": is_alive,
    "threading.Thread._bootstrap_inner": run,
    "threading._register_atexit": lambda function: None,
    "time.monotonic": lambda: schedule.now,
    "time.sleep": lambda seconds: schedule.wait(lambda: False, seconds),
    "queue.SimpleQueue": queue._PySimpleQueue,
    "hwheel.threading.engine.RLock": threading._PyRLock,
}


def run_schedule(scenario, seed, changes):
    """Run a scenario once. Return the schedule."""
    global schedule
    schedule = mine = Schedule(seed, changes, {scenario.__code__.co_filename})
    try:
        with (
            mock.patch("hwheel.threading.timer._creating", threading.RLock()),
            mock.patch("concurrent.futures.thread._global_shutdown_lock", Lock()),
        ):
            sys.settrace(mine.trace)
            scenario()
            mine.wait(lambda: all(member.over for member in mine.members.values() if member is not mine.main))
    except BaseException as error:
        error.add_note(f"seed {seed}: {' | '.join(mine.switches[-30:])}")
        if mine.failure is None:
            with contextlib.suppress(AssertionError):
                mine.fail("a check has failed")
        for thread, member in mine.members.items():
            if member is not mine.main and member.ident is not None:
                real_join(thread, HANG_S)
        raise
    finally:
        sys.settrace(None)
        schedule = None
    return mine


def explore(scenario, seeds, preemptions=3):
    """Run a scenario once by each seed, with so many preemptions. Return the number of different schedules."""
    with contextlib.ExitStack() as stack:
        for name, replacement in REPLACED.items():
            stack.enter_context(mock.patch(name, replacement))
        steps = run_schedule(scenario, 0, set()).steps
        found = set()
        for seed in seeds:
            changes = random.Random(seed).choices(range(1, steps + 1), k=preemptions)
            found.add(tuple(run_schedule(scenario, seed, {*changes}).switches))
    return len(found)
