"""Executors, threads, reporters, tasks and callbacks that err. What is wrong with the timer then is printed."""

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

HANGS_S = 30


class World:
    def __init__(self, executor=None, **options):
        faulthandler.dump_traceback_later(HANGS_S, exit=True)
        self.account = Account()
        self.reported = []
        options.setdefault("on_error", lambda source, error: self.reported.append((source, error)))
        self.timer = SystemTimer(executor=executor, **options)

    def goes_on(self, when):
        """Later timers run, one added after the other."""
        for _ in range(2):
            ran = threading.Event()
            self.timer.call_later(0.001, ran.set)
            if not ran.wait(8):
                print(f"{when}: a later timer does not run")
                return

    def end(self, *, lost_and_reported=()):
        """lost_and_reported: numbers of tasks of which an error was the end."""
        account, timer = self.account, self.timer
        account.cancelled |= {*lost_and_reported}
        account.close(timer)
        for fault in account.faults(timer):
            if not fault.startswith("the counters") or not lost_and_reported:
                print(fault)


# --- executors ---------------------------------------------------------------------------------------------------


class Erring:
    """Runs things on a thread of its own, but errs while `erring` says so."""

    def __init__(self):
        self.erring = True
        self.pool = ThreadPoolExecutor(1)
        self.accepted = 0

    def submit(self, function, *args):
        if self.erring:
            return self.err(function, *args)
        return self.pool.submit(function, *args)

    def err(self, function, *args):
        raise NotImplementedError


class Raising(Erring):
    error = RuntimeError

    def err(self, function, *args):
        raise self.error("refused")


class RaisingInterrupt(Raising):
    error = KeyboardInterrupt


class RaisingExit(Raising):
    error = SystemExit


class RaisingOnceAccepted(Erring):
    """Takes it, runs it, and raises all the same."""

    def err(self, function, *args):
        self.pool.submit(function, *args)
        self.accepted += 1
        raise RuntimeError("after it was taken")


class ReturningNone(Erring):
    returned = None

    def err(self, function, *args):
        self.pool.submit(function, *args)
        self.accepted += 1
        return self.returned


class ReturningInt(ReturningNone):
    returned = 7


class ReturningList(ReturningNone):
    """Not even hashable."""

    returned = []


class ReturningFutureOfAsyncio(ReturningNone):
    def err(self, function, *args):
        import asyncio

        super().err(function, *args)
        loop = asyncio.new_event_loop()
        future = loop.create_future()
        loop.close()
        return future


class Halved(Future):
    def add_done_callback(self, function):
        raise RuntimeError("no callbacks here")


class ReturningHalvedFuture(ReturningNone):
    def err(self, function, *args):
        super().err(function, *args)
        return Halved()


class BadResult(Future):
    """Done at once, but cannot say how."""

    def add_done_callback(self, function):
        function(self)

    def exception(self, timeout=None):
        raise RuntimeError("no exception to be had")


class ReturningBadResult(ReturningNone):
    def err(self, function, *args):
        super().err(function, *args)
        return BadResult()


class ReturningDone(ReturningNone):
    """Done before it is returned, as an executor does that runs things in submit()."""

    def err(self, function, *args):
        self.accepted += 1
        future = Future()
        future.set_result(function(*args))
        return future


class ReturningFailed(Erring):
    """Not run: its future says why."""

    def err(self, function, *args):
        future = Future()
        future.set_exception(OSError("nobody was there"))
        return future


class ReturningCancelled(Erring):
    def err(self, function, *args):
        future = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


class ReturningTheSame(ReturningNone):
    """One future for all that it is given."""

    def __init__(self):
        super().__init__()
        self.returned = Future()


class ShutDown(Erring):
    def err(self, function, *args):
        other = ThreadPoolExecutor(1)
        other.shutdown()
        return other.submit(function, *args)


class ShutDownInTheMiddle(Erring):
    """Cancels what it had accepted."""

    def __init__(self):
        super().__init__()
        self.other = ThreadPoolExecutor(1)
        self.hold = threading.Event()
        self.other.submit(self.hold.wait)
        self.given = 0

    def err(self, function, *args):
        self.given += 1
        future = self.other.submit(function, *args)
        if self.given == 3:
            threading.Timer(0.05, self._shut_down).start()
        return future

    def _shut_down(self):
        self.hold.set()
        self.other.shutdown(cancel_futures=True, wait=False)


class Blocking(Erring):
    """Takes its time."""

    def err(self, function, *args):
        time.sleep(0.3)
        self.accepted += 1
        return self.pool.submit(function, *args)


NEVER_DONE = (ReturningFutureOfAsyncio, ReturningTheSame)  # the future does not tell that the run is over
RUNS_ALL = (RaisingOnceAccepted, ReturningNone, Blocking, ReturningDone)
EXECUTORS = {
    f"{kind.__name__}{'' if reaper else ', no reaper'}": (kind, reaper)
    for kind in [
        Raising,
        RaisingInterrupt,
        RaisingExit,
        RaisingOnceAccepted,
        ReturningNone,
        ReturningInt,
        ReturningList,
        ReturningFutureOfAsyncio,
        ReturningHalvedFuture,
        ReturningBadResult,
        ReturningDone,
        ReturningFailed,
        ReturningCancelled,
        ReturningTheSame,
        ShutDown,
        ShutDownInTheMiddle,
        Blocking,
    ]
    for reaper in [True, False]
    # In the caller's own thread these are raised, and what was not begun is submitted again by the next
    # advance_clock().
    if reaper or kind not in (RaisingInterrupt, RaisingExit)
}


def with_executor(name):
    kind, reaper = EXECUTORS[name]
    executor = kind()
    world = World(executor, reaper=reaper)
    account, timer = world.account, world.timer
    at_once = [account.later(timer, 0.01) for _ in range(2)]
    account.many(timer, array("q", [12, 12]))
    every = account.again(timer, 0.02)
    account.later(timer, 3600)

    def go_on():
        if not reaper:
            try:
                timer.advance_clock(5)
            except (KeyboardInterrupt, SystemExit):  # out of submit: where else to, in the caller's own thread
                pass
            except BaseException as error:
                print(f"advance_clock() raised {error!r}")

    if not wait_until(lambda: go_on() or not any(task.pending for task in at_once), 5):
        print("what is due is not handed out")
    runs_all = isinstance(executor, RUNS_ALL)
    wait_until(lambda: go_on() or (executor.accepted and runs_all and len(account.every_ran) > 1), 0.3)
    executor.erring = False
    before = len(account.every_ran)
    goes_on = wait_until(lambda: go_on() or len(account.every_ran) >= before + 2, 0.5 if kind in NEVER_DONE else 5)
    if not goes_on and kind not in NEVER_DONE and not (every.cancelled and every in [one for one, _ in world.reported]):
        print("call_every has ended, without a word")
    later = threading.Event()
    timer.call_later(0.001, later.set)
    if not wait_until(lambda: go_on() or later.is_set(), 5):
        print("a later timer does not run")
    every.cancel()
    account.cancelled.add(3)
    # Those that the executor took ran once; of the others an error told.
    ran, sources = {*account.ran}, {id(source) for source, _ in world.reported}
    keys = {0: [0], 1: [1], 2: [(2, 0), (2, 1)]}
    not_run = [number for number, those in keys.items() if not ran & {*those}]
    for number in not_run:
        if id(account.tasks[number]) not in sources:
            print(f"{number} did not run, and no error was reported: {world.reported}")
    if isinstance(executor, RUNS_ALL) and not_run:
        print(f"these were accepted and did not run: {not_run}")
    executor.pool.shutdown()
    at_once = every = executor = None
    if kind is RaisingOnceAccepted and not world.reported:
        print("nothing was reported")
    world.reported.clear()
    if kind in NEVER_DONE:
        account.arguments.clear()
    world.end(lost_and_reported=[key for number in not_run for key in keys[number]])


# --- threads -----------------------------------------------------------------------------------------------------

# What threading.Thread.start() calls: another function from CPython 3.13 on.
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


def without_thread(name):
    error, where, number, add = STARTS[name]
    count = itertools.count()
    pool = ThreadPoolExecutor(1) if add == "pool" else None
    if pool is not None:
        pool.submit(int).result()
    world = World({"own": None, "inline": "inline", "pool": pool}[add])
    account, timer = world.account, world.timer
    start, start_new_thread = threading.Thread.start, getattr(threading, NEW_THREAD)

    def refusing_start(thread):
        if next(count) == number:
            if where == "the end of Thread.start":
                start(thread)
            raise error("can't start new thread")
        start(thread)

    def refusing_new_thread(*args, **kwargs):
        if next(count) == number:
            raise error("can't start new thread")
        return start_new_thread(*args, **kwargs)

    if where == "start_new_thread":
        setattr(threading, NEW_THREAD, refusing_new_thread)
    else:
        threading.Thread.start = refusing_start
    refused = False
    try:
        account.later(timer, 0.001)
    except error:
        refused = True
    finally:
        setattr(threading, NEW_THREAD, start_new_thread)
        threading.Thread.start = start
    threads = 2 if add == "own" else 1
    if not refused and number < threads:
        print("the add was not refused")
    if refused and len(timer):
        print(f"the add was refused, but {len(timer)} are pending")
    world.goes_on("after a thread could not be started")
    names = timer_threads()
    if len(names) != threads:
        print(f"these threads run: {names}")
    if pool is not None:
        pool.shutdown()
    world.end()


# --- reports -----------------------------------------------------------------------------------------------------


def fail(*args):
    raise ZeroDivisionError("on purpose")


def reporter_raises(world, source, error):
    raise RuntimeError("the reporter failed, too")


def reporter_exits(world, source, error):
    sys.exit("the reporter")


def reporter_is_slow(world, source, error):
    time.sleep(0.2)
    world.told.append(error)


def reporter_closes(world, source, error):
    if not world.told:
        world.told.append(error)
        world.account.close(world.timer)


def reporter_cancels(world, source, error):
    world.told.append(error)
    source.cancel()


def reporter_adds(world, source, error):
    world.told.append(error)
    if len(world.told) < 5:
        world.account.later(world.timer, 0)


def hook_raises(world, args):
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
    for executor in ["own", "inline", "pool"]
}


def with_reporter(name):
    reporter, add = REPORTERS[name]
    pool = ThreadPoolExecutor(1) if add == "pool" else None
    hooked, sys_hooked = [], []
    if reporter is hook_raises:
        threading.excepthook = lambda args: hooked.append(args.exc_type) or reporter(None, args)
    else:
        threading.excepthook = lambda args: hooked.append(args.exc_type)
    sys.excepthook = lambda *args: sys_hooked.append(args[0])
    on_error = None if reporter is hook_raises else lambda source, error: reporter(world, source, error)
    world = World({"own": None, "inline": "inline", "pool": pool}[add], on_error=on_error)
    world.told = []
    account, timer = world.account, world.timer

    def run(argument):
        account.run(argument)
        fail()

    account.later(timer, 0.02, run)
    account.later(timer, 0.02)
    every = timer.call_every(0.02, fail)
    batch = timer.call_many(array("q", [20, 20]), fail)
    account.later(timer, 3600)
    if reporter is reporter_closes:
        if not wait_until(lambda: timer.closed and len(timer) == 0, 8):
            print("the timer that its reporter closed is not at its end")
        # What had been handed out to the pool runs; the rest was returned.
        if pool is not None:
            pool.shutdown()
        wait_until(lambda: len(account.ran) + len(account.returned) >= 3, 2)
        time.sleep(0.05)
        for number in (0, 1, 2):
            ends = account.ran.count(number) + account.returned.count(number)
            if ends != 1:
                print(f"{number} ended {ends} times")
        if timer.close():
            print("a second close() returned something")
        if left := account.threads_left():
            print(f"threads are left: {left}")
        return
    if not wait_until(lambda: {*account.ran} >= {0, 1} and not batch.pending, 8):
        print("what was due with it does not run")
    world.goes_on("after errors")
    if reporter is not reporter_cancels:
        runs = len(hooked) + len(world.told)
        if not wait_until(lambda: len(hooked) + len(world.told) > runs + 1, 8):
            print("call_every has ended")
    if reporter in (reporter_raises, reporter_exits) and not hooked:
        print("the error of the reporter was not reported")
    if reporter is hook_raises and not sys_hooked:
        print("the error of the hook was not reported")
    every.cancel()
    every = batch = None
    if pool is not None:
        pool.shutdown()
    world.told.clear()
    account.close(timer)
    if len(timer) or account.threads_left():
        print("something is left")


# --- tasks -------------------------------------------------------------------------------------------------------


class Bare(TimerTask):
    def run(self):
        self.account.run(self)


NAMES = [
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
    for name in NAMES
    for kind in (["method", "raising property"] if not name.startswith("__") else ["method"])
    for executor in ["own", "inline", "pool"]
}


def with_task(name):
    attribute, kind, executor = TASKS[name]
    pool = ThreadPoolExecutor(1) if executor == "pool" else None
    world = World({"own": None, "inline": "inline", "pool": pool}[executor])

    def misleading(self, *args):
        raise RuntimeError(f"{attribute} is not what it seems")

    def method(self, *args):
        return 1

    if kind == "raising property":
        namespace = {attribute: property(misleading)}
    elif attribute in ("__bool__", "__repr__"):
        namespace = {attribute: misleading}
    else:
        namespace = {attribute: method}
        if attribute == "__eq__":
            namespace["__hash__"] = None
    kind_of_task = type("Task", (TimerTask,), {**namespace, "run": lambda self: ran.append(1)})
    ran = []
    tasks = [kind_of_task(1), kind_of_task(1), kind_of_task(3_600_000)]
    for task in tasks:
        world.timer.add(task)
    if not wait_until(lambda: len(ran) == 2, 4):
        print(f"of two tasks {len(ran)} ran; reported: {world.reported}")
    world.goes_on("after such tasks")
    if pool is not None:
        pool.shutdown()
    returned = world.timer.close()
    if len(returned) != 1 or returned[0] is not tasks[2]:
        print(f"close() returned {len(returned)}")
    if world.reported:
        print(f"reported: {world.reported}")
    if len(ran) > 2:
        print(f"of two tasks {len(ran)} runs")


# --- callbacks ---------------------------------------------------------------------------------------------------


class Nasty(BaseException):
    def __str__(self):
        raise RuntimeError("no str")

    __repr__ = __str__


CALLBACKS = {
    f"{error.__name__} / {executor} / {report}": (error, executor, report)
    for error in [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, Nasty]
    for executor in ["own", "inline", "pool"]
    for report in ["on_error", "excepthook"]
}


def with_callback(name):
    error, executor, report = CALLBACKS[name]
    pool = ThreadPoolExecutor(1) if executor == "pool" else None
    hooked = []
    if report == "excepthook":
        threading.excepthook = lambda args: hooked.append(args.exc_type)
    options = {} if report == "on_error" else {"on_error": None}
    world = World({"own": None, "inline": "inline", "pool": pool}[executor], **options)
    account, timer = world.account, world.timer

    def run(argument):
        account.run(argument)
        raise error()

    runs = []

    def every_run():
        runs.append(1)
        raise error()

    def batch_run(indices):
        runs.append(2)
        raise error()

    account.later(timer, 0.005, run)
    account.later(timer, 0.005)
    account.later(timer, 3600)
    every = timer.call_every(0.01, every_run)
    timer.call_many(array("q", [5, 5]), batch_run)
    if not wait_until(lambda: {*account.ran} == {0, 1} and runs.count(1) > 2 and 2 in runs, 8):
        print(f"ran {account.ran}, {runs}")
    every.cancel()
    world.goes_on("after that")
    if pool is not None:
        pool.shutdown()
    told = len(world.reported) + len(hooked)
    if told < 1 + 2 + 1:
        print(f"of all errors {told} were reported")
    del every
    world.reported.clear()
    hooked.clear()
    world.end()
