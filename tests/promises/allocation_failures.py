"""Fails each allocation of an operation in turn. The operation must raise MemoryError and change nothing, or succeed.

A scenario is a function of a World. It prepares an operation, and returns it together with a check. The check receives
the exception or None, and yields faults. The scenario runs again and again. In run n the n-th allocation
of the operation fails, alone or with all that follow, until the operation needs fewer allocations. CPython's own
_testcapi.set_nomemory() fails them, for all of its allocators, which the core uses too. The callbacks are C functions
that need no memory, so that their runs can be counted.
"""

import _testcapi
import gc
import itertools
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

import hwheel_core
from hwheel import ManualTimer
from invariants import check_invariants

FAR_MS = 10**9  # a new wheel has too few levels for this delay
END_S = 10**8  # later than every deadline
MAX_ALLOCATIONS = 1000


class World:
    """A timer, and an account of its tasks."""

    def __init__(self):
        self.timer = ManualTimer(wheel_size=4)
        self.ran = deque()  # has room for 32 more items before it allocates
        self.batches = []  # (deque of arrays, length)
        self.numbers = itertools.count()
        self.must_run = set()
        self.tasks = []
        self.cancelled = 0  # timers of batches

    def later(self, delay):
        """Add a task before the operation. It must run."""
        number = next(self.numbers)
        self.must_run.add(number)
        task = self.timer.call_later(delay, self.ran.append, number)
        self.tasks.append(task)
        return task

    def many(self, delays_ms):
        ran = deque()
        self.batches.append((ran, len(delays_ms)))
        return self.timer.call_many(delays_ms, ran.append)

    def replace_timer(self):
        """Forget the tasks of a timer that the scenario closes and checks itself."""
        self.must_run.clear()
        self.batches.clear()
        self.timer = ManualTimer()

    def faults(self):
        """Run all tasks with memory available again, and yield the faults."""
        check_invariants(self.timer)
        self.timer.advance(END_S)
        runs = Counter(self.ran)
        if wrong := [number for number in self.must_run if runs[number] != 1 and not self.tasks[number].cancelled]:
            yield f"did not run once: {[(number, runs[number]) for number in wrong]}"
        if double := [number for number, times in runs.items() if times > 1]:
            yield f"ran more than once: {double}"
        for arrays, length in self.batches:
            indices = Counter(index for one in arrays for index in one)
            if max(indices.values(), default=0) > 1:
                yield f"indices expired twice: {indices}"
            if len(indices) + self.cancelled != length:
                yield f"{len(indices)} of {length} of a batch expired, {self.cancelled} were cancelled"
        stats = self.timer.stats()
        if len(self.timer) or stats.added != stats.expired + stats.cancelled + stats.pending:
            yield f"{len(self.timer)} are pending, {stats}"
        self.timer.close()


class Scenario(NamedTuple):
    prepare: Callable
    most: int | None  # how many allocations are tried, if the operation runs until a time and so never needs fewer
    single_failures: bool  # without any memory the operation would not end
    # CPython 3.11 loses a reference if it lacks memory to call a Python function, and CPython 3.13 crashes. So these
    # scenarios run on 3.11 only, without a check for leaks.
    runs_python: bool


SCENARIOS = {}


def scenario(function, name=None, *, most=None, single_failures=False, runs_python=False):
    SCENARIOS[name or function.__name__] = Scenario(function, most, single_failures, runs_python)
    return function


def no_faults(error):
    """Check an operation that changes nothing."""
    return ()


def print_nothing(*report):
    """Ignore reports of callbacks that lacked memory."""


def search(name):
    """Fail allocation n and all that follow, for each n. Then fail each of them alone. Return the number of errors."""
    before = live_objects()
    _, most, single_failures, runs_python = SCENARIOS[name]
    last = most or MAX_ALLOCATIONS
    errors = 0
    for alone in (True,) if single_failures else (False, True):
        for n in range(1, last + 1):
            error, faults = run_once(name, n, alone)
            errors += error is not None
            for fault in faults:
                print(f"{name}, allocation {n}{'' if alone else ' and all that follow'}: {fault}")
            if not alone and error is None and most is None:
                last = n
                break
    if live_objects() != before and not runs_python:
        print(f"{name}: (timers, tasks, batches, watchers) {before} before, {live_objects()} after")
    return errors


def live_objects():
    gc.collect()
    return hwheel_core.debug_live() if hwheel_core.DEBUG else ()


def run_once(name, n, alone):
    """Return the exception of the operation, and the faults."""
    world = World()
    operate, check = SCENARIOS[name].prepare(world)
    error = None
    try:
        _testcapi.set_nomemory(n, n + 1 if alone else 0)
        operate()
    except BaseException as raised:
        _testcapi.remove_mem_hooks()
        error = raised.with_traceback(None)
    finally:
        _testcapi.remove_mem_hooks()
    faults = []
    if error is not None and not isinstance(error, MemoryError):
        faults.append(f"raised {error!r}")
    faults += check(error)
    faults += world.faults()
    return error, faults


def search_all(names):
    """Print the faults, and at last each name with the number of MemoryErrors."""
    threading.excepthook = sys.unraisablehook = print_nothing
    errors = {name: search(name) for name in names if not SCENARIOS[name].runs_python or sys.version_info < (3, 12)}
    print(errors)
