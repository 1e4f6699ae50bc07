"""Faulty executors, thread starts, error reporters, task subclasses, and callbacks. Each program prints the faults.

The timer must report the error, run later tasks, and lose no task.
"""

import asyncio
import faulthandler
import itertools
import sys
import threading
import time
from array import array
from concurrent.futures import Future, ThreadPoolExecutor

from account import Account, timer_threads
from hwheel import SystemTimer, TimerTask
from waiting import wait_until

HANG_S = 30
OWN_EXECUTORS = ["own", "inline", "pool"]


class World:
    """A SystemTimer with an account of its tasks. `executor` is a name of OWN_EXECUTORS or an executor."""

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
    """Runs submitted calls in a thread, but calls fail() instead while `faulty` is true."""

    runs_all = False  # it runs every call, although it is faulty
    is_never_done = False  # its futures do not report the end of a run

    def __init__(self):
        self.faulty = True
        self.pool = ThreadPoolExecutor(1)
        self.accepted = 0

    def submit(self, function, *args):
        if self.faulty:
            return self.fail(function, *args)
        return self.pool.submit(function, *args)

    def fail(self, function, *args):
        raise NotImplementedError


class Raising(FaultyExecutor):
    error = RuntimeError

    def fail(self, function, *args):
        raise self.error("refused")


class RaisingInterrupt(Raising):
    error = KeyboardInterrupt


class RaisingExit(Raising):
    error = SystemExit


class RaisingAfterSubmit(FaultyExecutor):
    """Accepts and runs the call, and raises nevertheless."""

    runs_all = True

    def fail(self, function, *args):
        self.pool.submit(function, *args)
        self.accepted += 1
        raise RuntimeError("raised after it accepted the call")


class ReturningNone(FaultyExecutor):
    """Runs the call, but does not return a Future."""

    runs_all = True
    returned = None

    def fail(self, function, *args):
        self.pool.submit(function, *args)
        self.accepted += 1
        return self.returned


class ReturningInt(ReturningNone):
    runs_all = False
    returned = 7


class ReturningList(ReturningInt):
    returned = []  # which is not hashable


class ReturningSameFuture(ReturningInt):
    is_never_done = True

    def __init__(self):
        super().__init__()
        self.returned = Future()


class ReturningAsyncioFuture(ReturningInt):
    is_never_done = True

    def fail(self, function, *args):
        super().fail(function, *args)
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


class ReturningFutureWithoutCallbacks(ReturningInt):
    @property
    def returned(self):
        return FutureWithoutCallbacks()


class ReturningFutureWithoutException(ReturningInt):
    @property
    def returned(self):
        return FutureWithoutException()


class ReturningDoneFuture(FaultyExecutor):
    """Runs the call in submit()."""

    runs_all = True

    def fail(self, function, *args):
        self.accepted += 1
        future = Future()
        future.set_result(function(*args))
        return future


class ReturningFailedFuture(FaultyExecutor):
    def fail(self, function, *args):
        future = Future()
        future.set_exception(OSError("not run"))
        return future


class ReturningCancelledFuture(FaultyExecutor):
    def fail(self, function, *args):
        future = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


class ShutDown(FaultyExecutor):
    def fail(self, function, *args):
        other = ThreadPoolExecutor(1)
        other.shutdown()
        return other.submit(function, *args)


class ShutDownLater(FaultyExecutor):
    """Cancels the calls that it accepted."""

    def __init__(self):
        super().__init__()
        self.other = ThreadPoolExecutor(1)
        self.hold = threading.Event()
        self.other.submit(self.hold.wait)
        self.submitted = 0

    def fail(self, function, *args):
        self.submitted += 1
        future = self.other.submit(function, *args)
        if self.submitted == 3:
            threading.Timer(0.05, self._shut_down).start()
        return future

    def _shut_down(self):
        self.hold.set()
        self.other.shutdown(cancel_futures=True, wait=False)


class Slow(FaultyExecutor):
    runs_all = True

    def fail(self, function, *args):
        time.sleep(0.3)
        self.accepted += 1
        return self.pool.submit(function, *args)


EXECUTORS = {
    f"{kind.__name__}{'' if reaper else ', no reaper'}": (kind, reaper)
    for kind in [
        Raising,
        RaisingInterrupt,
        RaisingExit,
        RaisingAfterSubmit,
        ReturningNone,
        ReturningInt,
        ReturningList,
        ReturningAsyncioFuture,
        ReturningFutureWithoutCallbacks,
        ReturningFutureWithoutException,
        ReturningDoneFuture,
        ReturningFailedFuture,
        ReturningCancelledFuture,
        ReturningSameFuture,
        ShutDown,
        ShutDownLater,
        Slow,
    ]
    for reaper in [True, False]
    # Without a reaper, advance_clock() raises these two, and the next call submits the remaining tasks.
    if reaper or kind not in (RaisingInterrupt, RaisingExit)
}


def with_executor(name):
    kind, reaper = EXECUTORS[name]
    ExecutorFault(kind(), reaper).run()


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
        if isinstance(executor, RaisingAfterSubmit) and not self.world.reported:
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


# --- reporters -------------------------------------------------------------------------------------------------------


def fail(*args):
    raise ZeroDivisionError("on purpose")


def reporter_raises(fault, source, error):
    raise RuntimeError("the reporter failed, too")


def reporter_exits(fault, source, error):
    sys.exit("the reporter")


def reporter_is_slow(fault, source, error):
    time.sleep(0.2)
    fault.received.append(error)


def reporter_closes(fault, source, error):
    if not fault.received:
        fault.received.append(error)
        fault.account.close(fault.timer)


def reporter_cancels(fault, source, error):
    fault.received.append(error)
    source.cancel()


def reporter_adds(fault, source, error):
    fault.received.append(error)
    if len(fault.received) < 5:
        fault.account.later(fault.timer, 0)


def hook_raises(fault, args):
    raise RuntimeError("the hook failed")


REPORTERS = {
    f"{reporter.__name__.replace('_', ' ')} / {executor}": (reporter, executor)
    for reporter in [
        reporter_raises,
        reporter_exits,
        reporter_is_slow,
        reporter_closes,
        reporter_cancels,
        reporter_adds,
        hook_raises,
    ]
    for executor in OWN_EXECUTORS
}


def with_reporter(name):
    fault = ReporterFault(*REPORTERS[name])
    fault.add_tasks()
    if fault.reporter is reporter_closes:
        fault.check_closed()
    else:
        fault.check_open()


class ReporterFault:
    """A timer whose callbacks raise, and whose on_error or threading.excepthook is faulty."""

    def __init__(self, reporter, executor):
        self.reporter = reporter
        self.received, self.hooked, self.sys_hooked = [], [], []
        sys.excepthook = lambda *args: self.sys_hooked.append(args[0])
        if reporter is hook_raises:
            threading.excepthook = lambda args: self.hooked.append(args.exc_type) or reporter(self, args)
            self.world = World(executor, on_error=None)
        else:
            threading.excepthook = lambda args: self.hooked.append(args.exc_type)
            self.world = World(executor, on_error=lambda source, error: reporter(self, source, error))
        self.account, self.timer = self.world.account, self.world.timer

    def add_tasks(self):
        def run(argument):
            self.account.run(argument)
            fail()

        self.account.later(self.timer, 0.02, run)
        self.account.later(self.timer, 0.02)
        self.every = self.timer.call_every(0.02, fail)
        self.batch = self.timer.call_many(array("q", [20, 20]), fail)
        self.account.later(self.timer, 3600)

    def check_closed(self):
        if not wait_until(lambda: self.timer.closed and len(self.timer) == 0, 8):
            print("the reporter closed the timer, but tasks are pending")
        self.world.shut_down_pool()  # runs the submitted tasks; close() returned the rest
        wait_until(lambda: len(self.account.ran) + len(self.account.returned) >= 3, 2)
        time.sleep(0.05)
        for number in (0, 1, 2):
            ends = self.account.ran.count(number) + self.account.returned.count(number)
            if ends != 1:
                print(f"{number} ended {ends} times")
        if self.timer.close():
            print("the second close() returned tasks")
        if left := self.account.threads_left():
            print(f"threads are left: {left}")

    def check_open(self):
        if not wait_until(lambda: {*self.account.ran} >= {0, 1} and not self.batch.pending, 8):
            print("tasks that expired together with the error do not run")
        self.world.check_later_timers("after errors")
        if self.reporter is not reporter_cancels:
            more = len(self.hooked) + len(self.received) + 1
            if not wait_until(lambda: len(self.hooked) + len(self.received) > more, 8):
                print("call_every has ended")
        if self.reporter in (reporter_raises, reporter_exits) and not self.hooked:
            print("the error of the reporter was not reported")
        if self.reporter is hook_raises and not self.sys_hooked:
            print("the error of the hook was not reported")
        self.every.cancel()
        self.world.shut_down_pool()
        self.account.close(self.timer)
        if len(self.timer) or self.account.threads_left():
            print("tasks or threads are left")


# --- task subclasses -------------------------------------------------------------------------------------------------

OVERRIDDEN = [
    "cancelled",
    "pending",
    "expired",
    "args",
    "kwargs",
    "callback",
    "delay_ms",
    "deadline_ms",
    "cancel",
    "reschedule",
    "_report",
    "_restart",
    "task",
    "timer",
    "__call__",
    "__eq__",
    "__bool__",
    "__len__",
    "__repr__",
]
TASKS = {
    f"{name} {kind} / {executor}": (name, kind, executor)
    for name in OVERRIDDEN
    for kind in (["method", "raising property"] if not name.startswith("__") else ["method"])
    for executor in OWN_EXECUTORS
}


def task_class(attribute, kind, ran):
    """Return a TimerTask class that overrides one attribute."""

    def raising(self, *args):
        raise RuntimeError(f"the overridden {attribute} was used")

    def method(self, *args):
        return 1

    namespace = {"run": lambda self: ran.append(1)}
    if kind == "raising property":
        namespace[attribute] = property(raising)
    else:
        namespace[attribute] = raising if attribute in ("__bool__", "__repr__") else method
    if attribute == "__eq__":
        namespace["__hash__"] = None
    return type("Task", (TimerTask,), namespace)


def with_task(name):
    attribute, kind, executor = TASKS[name]
    world = World(executor)
    ran = []
    cls = task_class(attribute, kind, ran)
    tasks = [cls(1), cls(1), cls(3_600_000)]
    for task in tasks:
        world.timer.add(task)
    if not wait_until(lambda: len(ran) == 2, 4):
        print(f"{len(ran)} of two tasks ran; reported: {world.reported}")
    world.check_later_timers("after such tasks")
    world.shut_down_pool()
    returned = world.timer.close()
    if len(returned) != 1 or returned[0] is not tasks[2]:
        print(f"close() returned {len(returned)}")
    if world.reported:
        print(f"reported: {world.reported}")
    if len(ran) > 2:
        print(f"two tasks ran {len(ran)} times")


# --- callbacks -------------------------------------------------------------------------------------------------------


class Unprintable(BaseException):
    def __str__(self):
        raise RuntimeError("no str")

    __repr__ = __str__


CALLBACKS = {
    f"{error.__name__} / {executor} / {report}": (error, executor, report)
    for error in [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, Unprintable]
    for executor in OWN_EXECUTORS
    for report in ["on_error", "excepthook"]
}


def with_callback(name):
    error, executor, report = CALLBACKS[name]
    hooked = []
    if report == "excepthook":
        threading.excepthook = lambda args: hooked.append(args.exc_type)
        world = World(executor, on_error=None)
    else:
        world = World(executor)
    account, timer = world.account, world.timer
    runs = []

    def run(argument):
        account.run(argument)
        raise error()

    def run_every():
        runs.append("every")
        raise error()

    def run_batch(indices):
        runs.append("batch")
        raise error()

    account.later(timer, 0.005, run)
    account.later(timer, 0.005)
    account.later(timer, 3600)
    every = timer.call_every(0.01, run_every)
    timer.call_many(array("q", [5, 5]), run_batch)
    if not wait_until(lambda: {*account.ran} == {0, 1} and runs.count("every") > 2 and "batch" in runs, 8):
        print(f"ran {account.ran}, {runs}")
    every.cancel()
    world.check_later_timers("after the errors")
    world.shut_down_pool()
    reports = len(world.reported) + len(hooked)
    if reports < 1 + 2 + 1:
        print(f"{reports} errors were reported")
    del every
    world.reported.clear()
    hooked.clear()
    world.end()
