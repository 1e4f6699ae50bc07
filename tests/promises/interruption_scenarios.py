"""Scenarios that are interrupted. Each uses a timer, closes it, and returns the faults."""

import contextlib
import itertools
import os
import signal
import threading
import time
from array import array
from concurrent.futures import Future, ThreadPoolExecutor

from account import Account
from hwheel import ManualTimer, SystemTimer
from hwheel.cachetools import TTLCache, cached
from interruption_points import search
from waiting import Waits, wait_until


class DuckTyped:
    """An executor with one thread that has only submit()."""

    def __init__(self):
        self._pool = ThreadPoolExecutor(1)

    def submit(self, function, *args) -> Future:
        return self._pool.submit(function, *args)

    def shutdown(self):
        self._pool.shutdown()


EXECUTORS = {"own": lambda: None, "inline": lambda: "inline", "pool": lambda: ThreadPoolExecutor(2), "duck": DuckTyped}


class World(Waits):
    """A timer, its executor, and the account of its tasks."""

    def __init__(self, executor="own", **options):
        self.account = Account()
        self.reported = []
        self.executor = EXECUTORS[executor]() if executor != "manual" else None
        self.reaper = options.get("reaper", True)
        on_error = lambda source, error: self.reported.append(repr(error))  # noqa: E731
        if executor == "manual":
            self.timer = ManualTimer(on_error=on_error)
        else:
            self.timer = SystemTimer(executor=self.executor, on_error=on_error, **options)

    def do(self, interruption, act, *, may_be_ignored=False):
        """Call act(), which is interrupted, and return the faults."""
        faults = []
        try:
            with interruption:
                act()
            if interruption.raised and not may_be_ignored:
                faults.append("the interrupt was ignored")
        except KeyboardInterrupt:
            if not interruption.raised:
                raise
        return faults

    def go_on(self):
        """Advance a ManualTimer or a timer without a reaper."""
        if not self.timer.closed:
            if isinstance(self.timer, ManualTimer):
                self.timer.advance(0.1)
            elif not self.reaper:
                self.timer.advance_clock(1)

    def settle(self):
        """Use the timer if it is open, close it, and return the faults."""
        return self.use_and_close() + self.faults()

    def use_and_close(self):
        faults = []
        account, timer = self.account, self.timer
        if not timer.closed:
            probe = account.later(timer, 0)
            if not self.wait_for(lambda: probe.expired, 5):
                faults.append("a task that is added afterwards does not run")
            soon = account.later(timer, 0.002)
            if not self.wait_for(lambda: soon.expired, 5):
                faults.append("a second task that is added afterwards does not run")
            del probe, soon
        account.close(timer)
        if again := timer.close():
            faults.append(f"another close() returned {len(again)}")
        if self.executor is not None and self.executor != "inline":
            self.executor.shutdown()
        return faults

    def faults(self):
        return self.account.faults(self.timer) + [f"reported: {error}" for error in self.reported]


# --- adds --------------------------------------------------------------------------------------------------------


def one_of_each(world):
    account, timer = world.account, world.timer
    account.later(timer, 3600)
    account.later(timer, 0.001)
    account.many(timer, array("q", [0, 1, 3_600_000]))
    account.again(timer, 3600)
    account.later(timer, 0.001, slack=0.001, max_lateness=3600)


def add_first(kind):
    def scenario(interruption, executor, **options):
        world = World(executor, **options)
        account, timer = world.account, world.timer
        act = {
            "later": lambda: account.later(timer, 0.001),
            "far": lambda: account.later(timer, 3600),
            "many": lambda: account.many(timer, array("q", [0, 1, 3_600_000])),
            "every": lambda: account.again(timer, 3600),
        }[kind]
        faults = world.do(interruption, act)
        return faults + world.settle()

    return scenario


def add_after_interrupted_first_add(interruption, executor, **options):
    """Another thread adds after the first add was interrupted, perhaps while it started threads."""
    world = World(executor, **options)
    faults = world.do(interruption, lambda: world.account.later(world.timer, 0.001))
    other = threading.Thread(target=one_of_each, args=(world,))
    other.start()
    other.join(10)
    if other.is_alive():
        faults.append("the next add hangs")
    return faults + world.settle()


# --- close -------------------------------------------------------------------------------------------------------


def busy(world, hold):
    """Start a callback that waits, with one expired task behind it and others pending."""
    account, timer = world.account, world.timer
    started, ended = threading.Event(), threading.Event()

    def run(argument):
        started.set()
        hold.wait(15)
        account.run(argument)
        ended.set()

    if isinstance(timer, ManualTimer) or not world.reaper:
        hold.set()
    account.later(timer, 0, run)
    if not hold.is_set():
        wait_until(started.is_set, 10)
    account.later(timer, 0)
    account.many(timer, array("q", [0, 0, 3_600_000]))
    one_of_each(world)
    return started, ended


def closing(how, idle):
    def scenario(interruption, executor, **options):
        world = World(executor, **options)
        hold = threading.Event()
        started = ended = threading.Event()
        if idle:
            one_of_each(world)
            world.go_on()
        else:
            started, ended = busy(world, hold)
            if how.get("timeout") is None:
                threading.Timer(0.02, hold.set).start()
        faults = world.do(interruption, lambda: world.account.close(world.timer, **how))
        hold.set()
        if started.is_set() and not ended.wait(5):
            faults.append("the running callback does not end")
        return faults + world.settle()

    return scenario


def never_started(interruption, executor, **options):
    world = World(executor, **options)
    faults = world.do(interruption, lambda: world.account.close(world.timer))
    return faults + world.settle()


def importable_callback(number):
    """A dump can hold this callback, because it is found by its name."""


def dumping(then):
    def scenario(interruption, executor, **options):
        """Each task is in the dump, is still pending, or is returned by the next dump() or close()."""
        world = World(executor, **options)
        timer, data = world.timer, []
        for number in range(3):
            timer.call_later(3600 + number, importable_callback, number)
        timer.call_every(3600, importable_callback, 3)
        faults = world.do(interruption, lambda: data.append(timer.dump()))
        if not data and not timer.closed and len(timer) != 4:
            faults.append(f"{len(timer)} of 4 are pending")
        if not data and then == "dump":
            data.append(timer.dump())
        left = timer.close()
        if data and left:
            faults.append(f"close() returned {len(left)} tasks that are in the dump")
        with ManualTimer() as other:
            tasks = other.load(data[0]).tasks if data else left
            numbers = sorted(task.args[0] for task in tasks)
        if numbers != [0, 1, 2, 3]:
            faults.append(f"expected 0 to 3, found {numbers}")
        if world.executor is not None and world.executor != "inline":
            world.executor.shutdown()
        if threads := world.account.threads_left():
            faults.append(f"threads are left: {threads}")
        return faults

    return scenario


def leaving_the_block(interruption, executor, **options):
    """__exit__ discards tasks. Only the others must be accounted for."""
    world = World(executor, **options)
    account, timer = world.account, world.timer
    tasks = []

    def act():
        with timer:
            tasks.append(account.later(timer, 3600))
            tasks.append(account.later(timer, 0.001))

    faults = world.do(interruption, act)
    threads = account.threads_left() if timer.closed and not interruption.raised else []
    account.close(timer)
    for number, task in [*account.tasks.items()]:
        if task.cancelled and number not in account.returned:
            del account.tasks[number]  # discarded by __exit__
    if len(timer) or any(task.pending for task in tasks):
        faults.append("tasks are pending after the second close()")
    tasks.clear()
    if threads := threads or account.threads_left():
        faults.append(f"threads are left: {threads}")
    if again := timer.close():
        faults.append(f"another close() returned {len(again)}")
    return faults


# --- timers that the caller advances -----------------------------------------------------------------------------


def advancing(interruption, executor, **options):
    """Call advance() or advance_clock() twice, with expired tasks of each kind."""
    world = World(executor, **options)
    account, timer = world.account, world.timer
    one_of_each(world)
    account.again(timer, 0.001)
    time.sleep(0.002)

    def act():
        for _ in range(2):
            if executor == "manual":
                timer.advance(0.003)
            else:
                timer.advance_clock(5)

    faults = world.do(interruption, act)
    short = [number for number in account.tasks if number in (1,)]
    if not world.wait_for(lambda: all(number in account.ran for number in short), 5):
        faults.append("the expired task does not run after the interrupt")
    return faults + world.settle()


def first_advance(interruption, executor, **options):
    """The first call is advance_clock(), which starts the timer."""
    world = World(executor, **options)
    faults = world.do(interruption, lambda: world.timer.advance_clock(1))
    return faults + world.settle()


def callback_interrupted(interruption, executor, **options):
    """A callback in the caller's thread raises KeyboardInterrupt, which must reach the caller."""
    world = World(executor, **options)
    account, timer = world.account, world.timer

    def interrupted(argument):
        account.run(argument)
        raise KeyboardInterrupt

    tasks = [account.later(timer, 0, interrupted), account.later(timer, 0)]
    reached_caller = False

    def act():
        nonlocal reached_caller
        try:
            if executor == "manual":
                timer.advance(0.001)
            else:
                timer.advance_clock(5)
        except KeyboardInterrupt:
            reached_caller = True
            raise

    with contextlib.suppress(KeyboardInterrupt), interruption:
        act()
    faults = [] if reached_caller else ["the KeyboardInterrupt of a callback did not reach the caller"]
    world.reported.clear()
    if not reached_caller or interruption.raised:  # the callback may not have raised yet
        with contextlib.suppress(KeyboardInterrupt):
            while not timer.closed:
                world.go_on()
                if not any(task.pending for task in tasks):
                    break
    return faults + world.settle()


# --- a fork ------------------------------------------------------------------------------------------------------


def forked(keep):
    def scenario(interruption, executor, **options):
        """Interrupt the fork handlers in the child. Python prints their exceptions and continues."""
        fork = "keep" if keep else "drop"
        worlds = [World(executor, fork=fork, **options) for _ in range(2)]
        for world in worlds:
            one_of_each(world)
            if not world.wait_for(lambda: len(world.account.ran) == 4, 10):
                return ["the parent's timers did not run"]
        pid = 0

        def act():
            nonlocal pid
            pid = os.fork()
            if pid == 0:
                signal.alarm(8)  # less than the parent's, so that the child prints its stacks

        faults = worlds[0].do(interruption, act, may_be_ignored=True)
        if pid:
            _, status = os.waitpid(pid, 0)
            if status:
                faults.append(f"the child ended with status {status}")
        else:
            for world in worlds:
                if executor == "pool":
                    world.timer._dispatcher._executor = world.executor = ThreadPoolExecutor(2)
                elif executor == "duck":
                    world.executor._pool = ThreadPoolExecutor(1)
        for world in worlds:
            if pid == 0 and not keep:
                drop(world)
            faults += world.use_and_close()
        for world in worlds:
            faults += world.faults()
        return faults

    return scenario


def drop(world):
    """Check in a child that the pending tasks are cancelled as soon as the timer is used."""
    world.account.later(world.timer, 0)
    for number, task in world.account.tasks.items():
        if number in world.account.lengths:
            if not task.pending:
                world.account.cancelled |= {(number, i) for i in range(len(task))} - {*world.account.ran}
        elif task.cancelled:
            world.account.cancelled.add(number)


# --- single flight -----------------------------------------------------------------------------------------------


def cached_call(interruption, executor, **options):
    """Another thread waits for the result of the call that is interrupted."""
    begun, done = threading.Event(), []

    @cached(TTLCache(9, 60, ManualTimer().time), single_flight=True)
    def function(number):
        begun.set()
        time.sleep(0.005)
        return number

    def call():
        begun.wait()
        done.append(function(1))

    threads = [threading.Thread(target=call, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    with contextlib.suppress(KeyboardInterrupt), interruption:
        function(1)
    begun.set()
    for thread in threads:
        thread.join(5)
    return [] if done == [1, 1] and function(1) == 1 else [f"a call hangs or fails: {done}"]


SCENARIOS = {
    "first add": (add_first("later"), "own inline pool duck"),
    "first add, far off": (add_first("far"), "own inline pool duck"),
    "first call_many": (add_first("many"), "own inline"),
    "first call_every": (add_first("every"), "own inline"),
    "first add, then others": (add_after_interrupted_first_add, "own inline pool duck"),
    "close": (closing({}, True), "own inline pool duck manual"),
    "close while busy": (closing({}, False), "own inline pool duck manual"),
    "close with timeout": (closing({"timeout": 0.05}, False), "own inline pool duck"),
    "close running the rest": (closing({"run_pending": True}, True), "own inline pool duck manual"),
    "close running the rest while busy": (closing({"run_pending": True}, False), "own inline pool duck manual"),
    "close running the rest with timeout": (
        closing({"run_pending": True, "timeout": 0.05}, False),
        "own inline pool duck",
    ),
    "close of what never started": (never_started, "own pool manual"),
    "dump, then close": (dumping("close"), "own inline pool manual"),
    "dump, then dump": (dumping("dump"), "inline own pool manual"),
    "leaving the block": (leaving_the_block, "own inline pool manual"),
    "advance": (advancing, "manual"),
    "in a callback": (callback_interrupted, "manual"),
    "cached call": (cached_call, "own"),
    "fork with drop": (forked(False), "own inline pool duck"),
    "fork with keep": (forked(True), "own inline pool duck"),
}
WITHOUT_REAPER = {
    "advance_clock": (advancing, "own inline pool duck"),
    "first advance_clock": (first_advance, "own inline pool"),
    "in a callback, advance_clock": (callback_interrupted, "inline"),
    "close without a reaper": (closing({}, False), "own inline pool duck"),
    "close running the rest without a reaper": (closing({"run_pending": True}, False), "own inline pool duck"),
}


def interruption_cases(exhaustive):
    """Return name -> (scenario, executor, options), for all executors or for one executor in turn."""
    turn = itertools.count()
    return {
        f"{name} / {executor}": (scenario, executor, options)
        for table, options in [(SCENARIOS, {}), (WITHOUT_REAPER, {"reaper": False})]
        for name, (scenario, executors) in table.items()
        for executor in ([*executors.split()] if exhaustive else [one_of(executors.split(), next(turn))])
    }


def one_of(those, number):
    return those[number % len(those)]


def search_case(name, sample):
    scenario, executor, options = interruption_cases(True)[name]
    search(lambda interruption: scenario(interruption, executor, **options), sample)
