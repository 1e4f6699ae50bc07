"""Faulty executors and thread starts. Each program prints the faults.

The timer must report the error, run later tasks, and lose no task.
"""

import asyncio
import faulthandler
import functools
import itertools
import threading
import time
from array import array
from concurrent.futures import Future, ThreadPoolExecutor

from account import Account, timer_threads
from hwheel import SystemTimer
from waiting import wait_until

HANG_S = 30


class World:
    """A SystemTimer with an account of its tasks. `executor` is "own", "inline", "pool", or an executor."""

    def __init__(self, executor="own", **options):
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        self.account = Account()
        self.reported = []
        self.pool = ThreadPoolExecutor(1) if executor == "pool" else None
        options.setdefault("on_error", lambda source, error: self.reported.append((source, error)))
        chosen = {"own": None, "inline": "inline", "pool": self.pool}
        self.timer = SystemTimer(executor=chosen[executor] if isinstance(executor, str) else executor, **options)

    def check_later_timers(self, when):
        """Print a fault unless two tasks, one added after the other, still run."""
        for _ in range(2):
            ran = threading.Event()
            self.timer.call_later(0.001, ran.set)
            if not ran.wait(8):
                print(f"{when}: a later task does not run")
                return

    def shut_down_pool(self):
        if self.pool is not None:
            self.pool.shutdown()

    def end(self, *, lost_and_reported=()):
        """Close the timer, and print the faults. `lost_and_reported`: the numbers of tasks that ended in an error."""
        self.shut_down_pool()
        self.account.cancelled |= {*lost_and_reported}
        self.account.close(self.timer)
        for fault in self.account.faults(self.timer):
            if not fault.startswith("the counters") or not lost_and_reported:
                print(fault)


# --- executors -------------------------------------------------------------------------------------------------------


class FaultyExecutor:
    """Runs submitted calls in a thread, but calls fail(self, call) instead while `faulty` is true.

    Args:
        runs_all: It runs every call, although it is faulty.
        is_never_done: Its futures do not report the end of a run.
    """

    def __init__(self, fail, *, runs_all=False, is_never_done=False):
        self.fail, self.runs_all, self.is_never_done = fail, runs_all, is_never_done
        self.faulty = True
        self.pool = ThreadPoolExecutor(1)
        self.accepted = 0

    def submit(self, function, *args):
        if self.faulty:
            return self.fail(self, functools.partial(function, *args))
        return self.pool.submit(function, *args)

    def accept(self, call):
        self.accepted += 1
        return self.pool.submit(call)


def raises(error):
    def fail(executor, call):
        raise error("refused")

    return fail


def raises_after_submit(executor, call):
    executor.accept(call)
    raise RuntimeError("raised after it accepted the call")


def returns(make):
    """Return a function that runs the call and returns make() instead of its future."""

    def fail(executor, call):
        executor.accept(call)
        return make()

    return fail


def asyncio_future():
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    loop.close()
    return future


class FutureWithoutCallbacks(Future):
    def add_done_callback(self, function):
        raise RuntimeError("no callbacks")


class FutureWithoutException(Future):
    def add_done_callback(self, function):
        function(self)

    def exception(self, timeout=None):
        raise RuntimeError("no exception")


def returns_done_future(executor, call):
    """Run the call in submit()."""
    executor.accepted += 1
    future = Future()
    future.set_result(call())
    return future


def returns_failed_future(executor, call):
    future = Future()
    future.set_exception(OSError("not run"))
    return future


def returns_cancelled_future(executor, call):
    future = Future()
    future.cancel()
    future.set_running_or_notify_cancel()
    return future


def is_shut_down(executor, call):
    other = ThreadPoolExecutor(1)
    other.shutdown()
    return other.submit(call)


def shuts_down_later():
    """Return a function that cancels the calls which it accepted."""
    other, hold, calls = ThreadPoolExecutor(1), threading.Event(), itertools.count(1)
    other.submit(hold.wait)

    def shut_down():
        hold.set()
        other.shutdown(cancel_futures=True, wait=False)

    def fail(executor, call):
        future = other.submit(call)
        if next(calls) == 3:
            threading.Timer(0.05, shut_down).start()
        return future

    return fail


def is_slow(executor, call):
    time.sleep(0.3)
    return executor.accept(call)


KINDS = {
    "raises": lambda: FaultyExecutor(raises(RuntimeError)),
    "raises KeyboardInterrupt": lambda: FaultyExecutor(raises(KeyboardInterrupt)),
    "raises SystemExit": lambda: FaultyExecutor(raises(SystemExit)),
    "raises after submit": lambda: FaultyExecutor(raises_after_submit, runs_all=True),
    "returns None": lambda: FaultyExecutor(returns(lambda: None), runs_all=True),
    "returns an int": lambda: FaultyExecutor(returns(lambda: 7)),
    "returns a list, which is not hashable": lambda: FaultyExecutor(returns(list)),
    "returns an asyncio future": lambda: FaultyExecutor(returns(asyncio_future), is_never_done=True),
    "returns a future without callbacks": lambda: FaultyExecutor(returns(FutureWithoutCallbacks)),
    "returns a future without exception()": lambda: FaultyExecutor(returns(FutureWithoutException)),
    "returns a done future": lambda: FaultyExecutor(returns_done_future, runs_all=True),
    "returns a failed future": lambda: FaultyExecutor(returns_failed_future),
    "returns a cancelled future": lambda: FaultyExecutor(returns_cancelled_future),
    "returns one future for all": lambda: FaultyExecutor(returns(functools.cache(Future)), is_never_done=True),
    "is shut down": lambda: FaultyExecutor(is_shut_down),
    "is shut down later": lambda: FaultyExecutor(shuts_down_later()),
    "is slow": lambda: FaultyExecutor(is_slow, runs_all=True),
}
EXECUTORS = {
    f"{name}{'' if reaper else ', no reaper'}": (name, reaper)
    for name in KINDS
    for reaper in [True, False]
    # Without a reaper, advance_clock() raises these two, and the next call submits the remaining tasks.
    if reaper or name not in ("raises KeyboardInterrupt", "raises SystemExit")
}


def with_executor(name):
    kind, reaper = EXECUTORS[name]
    ExecutorFault(KINDS[kind](), reaper).run()


class ExecutorFault:
    """A timer with one task of each kind on a faulty executor."""

    def __init__(self, executor, reaper):
        self.executor = executor
        self.reaper = reaper
        self.world = World(executor, reaper=reaper)
        self.account, self.timer = self.world.account, self.world.timer

    def go_on(self):
        if not self.reaper:
            try:
                self.timer.advance_clock(5)
            except (KeyboardInterrupt, SystemExit):  # from submit(), in the caller's own thread
                pass
            except BaseException as error:
                print(f"advance_clock() raised {error!r}")

    def wait_for(self, condition, patience_s=5.0):
        return wait_until(lambda: self.go_on() or condition(), patience_s)

    def run(self):
        account, executor = self.account, self.executor
        due = [account.later(self.timer, 0.01) for _ in range(2)]
        account.many(self.timer, array("q", [12, 12]))
        every = account.again(self.timer, 0.02)
        account.later(self.timer, 3600)
        if not self.wait_for(lambda: not any(task.pending for task in due)):
            print("the expired tasks are not dispatched")
        self.wait_for(lambda: executor.accepted and executor.runs_all and len(account.every_ran) > 1, 0.3)
        executor.faulty = False
        self.check_recovery(every)
        every.cancel()
        account.cancelled.add(3)
        lost = self.check_errors()
        executor.pool.shutdown()
        if executor.fail is raises_after_submit and not self.world.reported:
            print("no error was reported")
        self.world.reported.clear()
        if executor.is_never_done:
            account.arguments.clear()
        due.clear()
        every = None
        self.executor = executor = None
        self.world.end(lost_and_reported=lost)

    def check_recovery(self, every):
        """Check that tasks run once the executor works."""
        never_done = self.executor.is_never_done
        enough = len(self.account.every_ran) + 2
        recovers = self.wait_for(lambda: len(self.account.every_ran) >= enough, 0.5 if never_done else 5)
        reported = every.cancelled and every in [source for source, _ in self.world.reported]
        if not (recovers or never_done or reported):
            print("call_every has ended without an error")
        later = threading.Event()
        self.timer.call_later(0.001, later.set)
        if not self.wait_for(later.is_set):
            print("a later task does not run")

    def check_errors(self):
        """Check that each task ran or was reported. Return the keys of those that did not run."""
        ran = {*self.account.ran}
        sources = {id(source) for source, _ in self.world.reported}
        keys_of = {0: [0], 1: [1], 2: [(2, 0), (2, 1)]}
        not_run = [number for number, keys in keys_of.items() if not ran & {*keys}]
        for number in not_run:
            if id(self.account.tasks[number]) not in sources:
                print(f"{number} did not run, and no error was reported: {self.world.reported}")
        if self.executor.runs_all and not_run:
            print(f"the executor accepted these, and they did not run: {not_run}")
        return [key for number in not_run for key in keys_of[number]]


# --- threads ---------------------------------------------------------------------------------------------------------

# The function that threading.Thread.start() calls. CPython 3.13 renamed it.
NEW_THREAD = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else "_start_new_thread"

STARTS = {
    f"{error.__name__} at {where} of thread {number} / {executor}": (error, where, number, executor)
    for error, where in [
        (RuntimeError, "start_new_thread"),
        (MemoryError, "start_new_thread"),
        (KeyboardInterrupt, "start_new_thread"),
        (RuntimeError, "Thread.start"),
        (KeyboardInterrupt, "the end of Thread.start"),
    ]
    for number, executor in [(0, "own"), (1, "own"), (0, "inline"), (0, "pool")]
}


class FaultyStart:
    """A context in which the start of one thread raises."""

    def __init__(self, error, where, number):
        self.error, self.where, self.number = error, where, number
        self.count = itertools.count()
        self.start, self.new_thread = threading.Thread.start, getattr(threading, NEW_THREAD)

    def __enter__(self):
        def start(thread):
            if next(self.count) == self.number:
                if self.where == "the end of Thread.start":
                    self.start(thread)
                raise self.error("can't start new thread")
            self.start(thread)

        def new_thread(*args, **kwargs):
            if next(self.count) == self.number:
                raise self.error("can't start new thread")
            return self.new_thread(*args, **kwargs)

        if self.where == "start_new_thread":
            setattr(threading, NEW_THREAD, new_thread)
        else:
            threading.Thread.start = start

    def __exit__(self, *exc_info):
        setattr(threading, NEW_THREAD, self.new_thread)
        threading.Thread.start = self.start


def without_thread(name):
    error, where, number, executor = STARTS[name]
    world = World(executor)
    if world.pool is not None:
        world.pool.submit(int).result()
    refused = False
    try:
        with FaultyStart(error, where, number):
            world.account.later(world.timer, 0.001)
    except error:
        refused = True
    threads = 2 if executor == "own" else 1
    if not refused and number < threads:
        print("the add was not refused")
    if refused and len(world.timer):
        print(f"the add was refused, but {len(world.timer)} are pending")
    world.check_later_timers("after a thread could not be started")
    names = timer_threads()
    if len(names) != threads:
        print(f"expected {threads} threads, found {names}")
    world.end()
