"""Scenes of starving.py: executors, threads, the purgatory, functions over columns."""

import sys
import threading
import time
from array import array
from collections import deque

import hwheel_core
from hwheel import SystemTimer, TimerTask
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
from starving import IN_PYTHON, MOST, named, no_faults, scene
from waiting import wait_until


class Watched(DelayedOperation):
    ready = False

    def try_complete(self):
        return self.ready and self.force_complete()

    def on_complete(self):
        self.done.append(self)

    def on_expiration(self):
        self.late.append(self)


@scene
def purgatory_add(world):
    purgatory = DelayedOperationPurgatory("p", timer=world.timer)
    operation = Watched(0.5)
    operation.done, operation.late = [], []
    keys = ["a", "b", 3]

    def faults(error):
        if error is None and purgatory.num_delayed != 1:
            yield f"{purgatory.num_delayed} delayed"
        operation.ready = True
        purgatory.check_and_complete("a")
        world.timer.advance(1)
        if len(operation.done) > 1 or (error is None and len(operation.done) != 1):
            yield f"completed {len(operation.done)} times"
        purgatory.purge()
        if purgatory.watched or purgatory.num_delayed:
            yield f"{purgatory.watched} watched, {purgatory.num_delayed} delayed are left"
        purgatory.close()

    return lambda: purgatory.try_complete_else_watch(operation, keys), faults


@scene
def purgatory_check(world):
    purgatory = DelayedOperationPurgatory("p", timer=world.timer)
    operations = [Watched(0.5) for _ in range(3)]
    for operation in operations:
        operation.done, operation.late = [], []
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    for operation in operations:
        operation.ready = True

    def faults(error):
        purgatory.check_and_complete("a")
        world.timer.advance(1)
        for operation in operations:
            if not operation.is_completed:
                yield "not completed"
        if purgatory.num_delayed:
            yield f"{purgatory.num_delayed} delayed are left"
        purgatory.close()

    return lambda: purgatory.check_and_complete("a"), faults


class Here:
    """An executor that runs what it is given at once."""

    def submit(self, function, handed_out):
        function(handed_out)
        return None


def hands_out(name, executor, prepare):
    """A SystemTimer that the caller advances."""

    def play(world):
        now = [1000]
        reported = deque()
        world.timer = SystemTimer(
            executor=executor, reaper=False, clock=lambda: now[0], on_error=lambda *error: reported.append(1)
        )
        prepare(world)
        now[0] += 10_000
        timer = world.timer

        def faults(error):
            for _ in range(4):
                timer.advance_clock(0)
            if len(timer):
                yield f"{len(timer)} are pending after {error!r}"
            missing = len(world.sure) - len({*world.ran})
            for arrays, length in world.batches:
                missing += sum(len(one) for one in arrays) != length
            if len(world.ran) != len({*world.ran}) or missing > len(reported):
                yield f"ran {[*world.ran]}, {world.batches}; {missing} did not, {len(reported)} errors were reported"
            timer.close()
            world.start_anew()

        return lambda: timer.advance_clock(0), faults

    named(name, play)


def some_of_each(world):
    for delay in (0.001, 0.001, 5):
        world.later(delay)
    world.many(array("q", [1, 1, 7000]))
    world.later(2)


hands_out("hand_out_inline", "inline", some_of_each)
hands_out("hand_out_to_executor", Here(), some_of_each)


def lives_on(name, executor):
    """On threads of the timer's own: what fails is whatever they come to."""

    def play(world):
        reported = deque()
        was, threading.excepthook = threading.excepthook, reported.append  # where on_error itself fails
        # coverage.py traces threads. Without memory its tracer raises between any two lines and ends them.
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

        def faults(error):
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
            world.start_anew()

        return lambda: time.sleep(0.006), faults

    named(name, play)


lives_on("threads", None)
lives_on("threads_inline", "inline")
MOST["threads"] = MOST["threads_inline"] = 20


@scene
def take_back(world):
    """close() takes back what an executor has been given and has not begun with."""
    given = []

    class Keeps:
        def submit(self, function, handed_out):
            given.append(handed_out)

    now = [1000]
    world.timer = timer = SystemTimer(executor=Keeps(), reaper=False, clock=lambda: now[0])
    for delay in (0.001, 0.001):
        timer.call_later(delay, print, delay)
    timer.call_many(array("q", [1, 2, 70_000]), print)
    now[0] += 100
    timer.advance_clock(0)
    returned = []

    def act():
        returned.append(None)
        returned[0] = timer.close(run_pending=True, timeout=0)

    def faults(error):
        if error is not None:
            returned[:] = [timer.close(run_pending=True, timeout=0)]
        back = returned[0]
        tasks = [one for one in back if isinstance(one, TimerTask)]
        indices = sorted(index for one in back if not isinstance(one, TimerTask) for index in one.indices())
        if len(tasks) != 2 or indices != [0, 1, 2]:
            yield f"came back: {back}, indices {indices}, after {error!r}"
        world.start_anew()

    return act, faults


@scene
def columns(world):
    times = array("q", range(0, 100_000, 1000))

    def act():
        hwheel_core.place(times, 0, 1, 8)
        hwheel_core.group(times, times)
        hwheel_core.order_by(times, times)

    return act, no_faults


@scene
def replayed(world):
    starts, timeouts, ends = (array("q", [base + i for i in range(50)]) for base in (0, 5, 7))
    order = array("q", range(50))
    return lambda: hwheel_core.replay(starts, timeouts, ends, order, 1, 8), no_faults


IN_PYTHON |= {"hand_out_to_executor", "take_back"}
