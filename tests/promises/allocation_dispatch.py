"""Allocation failures in dispatch, executors, threads, and functions over columns."""

import sys
import threading
import time
from array import array
from collections import deque

import hwheel_core
from allocation_failures import no_faults, scenario
from hwheel import SystemTimer, TimerTask
from waiting import wait_until


class ImmediateExecutor:
    """An executor that runs a submitted call at once."""

    def submit(self, function, handed_out):
        function(handed_out)
        return None


def dispatches(name, executor, **options):
    """Register a scenario for advance_clock() of a SystemTimer with expired tasks of each kind."""

    def prepare(world):
        now = [1000]
        reported = deque()
        world.timer = SystemTimer(
            executor=executor, reaper=False, clock=lambda: now[0], on_error=lambda *error: reported.append(1)
        )
        add_some_of_each(world)
        now[0] += 10_000
        timer = world.timer

        def check(error):
            for _ in range(4):
                timer.advance_clock(0)
            if len(timer):
                yield f"{len(timer)} are pending after {error!r}"
            missing = len(world.must_run) - len({*world.ran})
            for arrays, length in world.batches:
                missing += sum(len(one) for one in arrays) != length
            if len(world.ran) != len({*world.ran}) or missing > len(reported):
                yield f"ran {[*world.ran]}, {world.batches}; {missing} did not run, {len(reported)} errors reported"
            timer.close()
            world.replace_timer()

        return lambda: timer.advance_clock(0), check

    scenario(prepare, name, **options)


def add_some_of_each(world):
    for delay in (0.001, 0.001, 5):
        world.later(delay)
    world.many(array("q", [1, 1, 7000]))
    world.later(2)


dispatches("dispatch_inline", "inline")
dispatches("dispatch_to_executor", ImmediateExecutor(), runs_python=True)


def survives_on_threads(name, executor):
    """Register a scenario for a timer with its own threads, which lack memory at any point of their work."""

    def prepare(world):
        reported = deque()
        was, threading.excepthook = threading.excepthook, reported.append  # called if on_error lacks memory
        # A tracer, for example of a coverage run, would raise MemoryError between any two lines and end the threads.
        tracers = sys.gettrace(), threading.gettrace()
        sys.settrace(None)
        threading.settrace(None)
        world.timer = timer = SystemTimer(executor=executor, on_error=lambda *error: reported.append(None))
        first = threading.Event()
        timer.call_later(0, first.set)
        first.wait()
        for delay in (0.001, 0.001, 0.003, 3600):
            world.later(delay)
        world.many(array("q", [1, 1, 2, 3_600_000]))

        def check(error):
            if not wait_until(lambda: len(timer) == 2, 8):
                yield f"{len(timer)} are pending"
            later = threading.Event()
            timer.call_later(0.001, later.set)
            if not later.wait(8):
                yield "a later timer does not run"
            indices = [index for arrays, _ in world.batches for one in arrays for index in one]
            lost = 3 - len(world.ran) + (len(indices) < 3)
            if len(world.ran) != len({*world.ran}) or len(indices) != len({*indices}) or lost > len(reported):
                yield f"ran {[*world.ran]}, indices {indices}, {len(reported)} errors were reported"
            timer.close()
            threading.excepthook = was
            sys.settrace(tracers[0])
            threading.settrace(tracers[1])
            world.replace_timer()

        return lambda: time.sleep(0.006), check

    scenario(prepare, name, most=20)


survives_on_threads("threads", None)
survives_on_threads("threads_inline", "inline")


def take_back(world):
    """close() takes back tasks that were submitted to an executor and have not begun."""
    given = []

    class KeepingExecutor:
        def submit(self, function, handed_out):
            given.append(handed_out)

    now = [1000]
    world.timer = timer = SystemTimer(executor=KeepingExecutor(), reaper=False, clock=lambda: now[0])
    for delay in (0.001, 0.001):
        timer.call_later(delay, print, delay)
    timer.call_many(array("q", [1, 2, 70_000]), print)
    now[0] += 100
    timer.advance_clock(0)
    returned = []

    def act():
        returned.append(None)
        returned[0] = timer.close(run_pending=True, timeout=0)

    def check(error):
        if error is not None:
            returned[:] = [timer.close(run_pending=True, timeout=0)]
        back = returned[0]
        tasks = [one for one in back if isinstance(one, TimerTask)]
        indices = sorted(index for one in back if not isinstance(one, TimerTask) for index in one.indices())
        if len(tasks) != 2 or indices != [0, 1, 2]:
            yield f"close() returned {back}, indices {indices}, after {error!r}"
        world.replace_timer()

    return act, check


scenario(take_back, runs_python=True)


@scenario
def columns(world):
    times = array("q", range(0, 100_000, 1000))

    def act():
        hwheel_core.place(times, 0, 1, 8)
        hwheel_core.group(times, times)
        hwheel_core.order_by(times, times)

    return act, no_faults


@scenario
def replay(world):
    starts, timeouts, ends = (array("q", [base + i for i in range(50)]) for base in (0, 5, 7))
    order = array("q", range(50))
    return lambda: hwheel_core.replay(starts, timeouts, ends, order, 1, 8), no_faults
