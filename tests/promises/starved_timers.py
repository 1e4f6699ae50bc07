"""Scenes of starving.py: timers, batches and the bare wheel."""

import functools
import gc
import random
from array import array
from collections import deque
from contextvars import copy_context

from hwheel import ManualTimer, TimerTask, TimingWheel
from starving import END, ENDLESS, FAR, IN_PYTHON, MOST, named, no_faults, print_nothing, scene


def adds(name, prepare, runs=1):
    """A scene for an add that runs so many times, if it was not refused."""

    def play(world):
        ran = deque()
        add = prepare(world, ran)
        world.later(0.002)

        def faults(error):
            world.timer.advance(END)
            if len(ran) != (runs if error is None else 0):
                yield f"it ran {len(ran)} times, the add {'was refused' if error else 'was not refused'}"

        return add, faults

    named(name, play)


CONTEXT = copy_context()
TERMS = {"slack": 1, "max_lateness": 1}
DELAYS = array("q", [1, 5, FAR])

adds("call_later", lambda world, ran: lambda: world.timer.call_later(0.003, ran.append, 1))
adds("call_later_far", lambda world, ran: lambda: world.timer.call_later(FAR / 1000, ran.append, 1))
adds("call_at_far", lambda world, ran: lambda: world.timer.call_at(FAR / 1000, ran.append, 1))
adds("call_later_at_once", lambda world, ran: lambda: world.timer.call_later(0, ran.append, 1))
adds("call_later_with_none", lambda world, ran: lambda: world.timer.call_later(0.003, ran.append, None))
adds("call_later_in_context", lambda world, ran: lambda: world.timer.call_later(1, ran.append, 1, context=CONTEXT))
adds("call_later_on_terms", lambda world, ran: lambda: world.timer.call_later(1, ran.append, 1, **TERMS))
adds("call_at_on_terms_far", lambda world, ran: lambda: world.timer.call_at(FAR / 1000, ran.append, 1, slack=10**6))
adds("add", lambda world, ran: functools.partial(world.timer.add, TimerTask(5, ran.append, 1)))
adds("add_far", lambda world, ran: functools.partial(world.timer.add, TimerTask(FAR, ran.append, 1)))
adds("new_task_and_add", lambda world, ran: lambda: world.timer.add(TimerTask(FAR, ran.append, 1)))
adds("call_many", lambda world, ran: lambda: world.timer.call_many(DELAYS, ran.append), runs=3)


def group_adds(name, method, *arguments, runs=1):
    def prepare(world, ran):
        add = getattr(world.timer.group(), method)
        return lambda: add(*[ran.append if one is None else one for one in arguments])

    adds(name, prepare, runs)


group_adds("group_call_later", "call_later", 0.003, None, 1)
group_adds("group_call_at_far", "call_at", FAR / 1000, None, 1)
group_adds("group_call_with_two", "call_later", 1, print_nothing, 1, 2, runs=0)
adds("new_group", lambda world, ran: lambda: world.timer.group().call_later(0.003, ran.append, 1))


@scene
def group_cancel(world):
    group = world.timer.group()
    tasks = [group.call_later(0.5 + i, print_nothing, i) for i in range(3)]
    every = group.call_every(1e7, print_nothing)
    world.later(0.5)

    def faults(error):
        if error is not None:
            yield f"{error!r}"
        if len(group) or not every.cancelled or not all(task.cancelled for task in tasks):
            yield "not all were cancelled"

    return group.cancel, faults


@scene
def group_call_every(world):
    group, ran, made = world.timer.group(), deque(maxlen=3), [None]

    def add():
        made[0] = group.call_every(0.5, ran.append, 1)

    def faults(error):
        if len(group) != (error is None):
            yield f"{len(group)} in the group after {error!r}"
        world.timer.advance(0.6)
        if len(ran) != (error is None):
            yield f"ran {len(ran)} times after {error!r}"
        group.close()

    return add, faults


@scene
def advance_group(world):
    """What is taken out and cannot be handed out for want of memory is a member again."""
    group, ran = world.timer.group(), deque(maxlen=8)
    group.call_later(0.001, ran.append, 1)
    group.call_later(FAR / 1000, ran.append, 2)
    every = group.call_every(0.3, ran.append, 3)

    def faults(error):
        world.timer.advance(1)
        if len(group) != 2 or not every.pending or 1 not in ran:
            yield f"{len(group)} in the group, {ran}"
        every.cancel()

    return lambda: world.timer.advance(0.65), faults


@scene
def call_every(world):
    ran = deque(maxlen=3)
    world.later(0.002)
    made = [None]

    def add():
        made[0] = world.timer.call_every(0.5, ran.append, 1)

    def faults(error):
        world.timer.advance(0.6)
        if len(ran) != (error is None):
            yield f"ran {len(ran)} times after {error!r}"
        if made[0]:
            made[0].cancel()

    return add, faults


@scene
def call_every_on_terms(world):
    ran = deque(maxlen=3)
    world.later(0.002)
    source = random.Random(7)
    made = [None]

    def add():
        made[0] = world.timer.call_every(0.5, ran.append, 1, slack=0.01, jitter=0.01, random=source, max_lateness=1)

    def faults(error):
        world.timer.advance(0.6)
        if len(ran) != (error is None):
            yield f"ran {len(ran)} times after {error!r}"
        if made[0]:
            made[0].cancel()

    return add, faults


@scene
def miss(world):
    """What is too late is told, or that is reported; either way it is over, and what comes behind it runs."""
    told = deque()
    world.timer = ManualTimer(wheel_size=4, start_ms=5000, on_missed=told.append)
    missed = world.timer.call_at(1, world.ran.append, None, max_lateness=1)
    task = world.timer.call_every(0.3, int, jitter=0.1, random=random.Random(7), max_lateness=1)
    world.later(0.3)

    def faults(error):
        world.timer.advance(0.4)
        if not task.pending:
            yield f"call_every has ended after {error!r}"
        if missed.callback or len(told) > 1 or (error is None and [*told] != [missed]):
            yield f"told of {[*told]} after {error!r}"
        task.cancel()

    return lambda: world.timer.advance(0.65), faults


@scene
def reschedule_on_terms(world):
    task = world.timer.call_later(0.5, int, slack=0.02)

    def faults(error):
        if task.deadline_ms != (512 if error else 999_999_520):
            yield f"deadline {task.deadline_ms} after {error!r}"

    return lambda: task.reschedule(FAR / 1000 - 0.5), faults


@scene
def cancel(world):
    task = world.later(0.5)
    world.later(0.5)

    def faults(error):
        if error is not None:
            yield f"{error!r}"
        if not task.cancelled:
            yield "not cancelled"

    return task.cancel, faults


def reschedules(name, delay):
    def play(world):
        task = world.later(0.5)
        world.later(0.7)

        def faults(error):
            want = 0.5 if error else delay
            if task.deadline_ms != round(want * 1000):
                yield f"deadline {task.deadline_ms}, wanted {want} s after {error!r}"

        return lambda: task.reschedule(delay), faults

    named(name, play)


reschedules("reschedule", 0.6)
reschedules("reschedule_far", FAR / 1000)


def changes_batch(name, change, cancels=0):
    def play(world):
        batch = world.many(array("q", [10, 20, 30, FAR // 1000]))
        world.later(0.02)
        bound = change(batch)

        def faults(error):
            left = 4 if error or not cancels else 4 - cancels
            if batch.pending != left:
                yield f"{batch.pending} pending, wanted {left}, after {error!r}"
            world.cancelled = 4 - batch.pending

        return bound, faults

    named(name, play)


SOME = array("q", [1, 2])
changes_batch("batch_cancel", lambda batch: batch.cancel, 4)
changes_batch("batch_cancel_array", lambda batch: lambda: batch.cancel(SOME), 2)
changes_batch("batch_cancel_list", lambda batch: lambda: batch.cancel([1, 2]), 2)
changes_batch("batch_cancel_iterator", lambda batch: lambda: batch.cancel(iter((1, 2))), 2)
changes_batch("batch_reschedule", lambda batch: lambda: batch.reschedule(SOME, 50))
changes_batch("batch_reschedule_far", lambda batch: lambda: batch.reschedule(SOME, FAR))
changes_batch("batch_reschedule_all_far", lambda batch: lambda: batch.reschedule(None, FAR))
changes_batch("batch_reschedule_list", lambda batch: lambda: batch.reschedule([0, 3], array("q", [5, FAR])))
changes_batch("batch_indices", lambda batch: batch.indices)


def extends_batch(name, prepare, *delays_ms, count=1):
    """All or nothing is added, and what there was runs."""

    def play(world):
        batch = world.many(array("q", [10, 20, FAR // 1000]))
        ran, _ = world.batches[0]
        prepare(world, batch, ran.append)
        length, pending, more = len(batch), batch.pending, array("q", delays_ms * count)

        def faults(error):
            added = 0 if error else len(more)
            world.batches[0] = ran, length + added
            if (len(batch), batch.pending) != (length + added, pending + added):
                yield f"{batch}, wanted {length} + {added}, after {error!r}"
            if (batch.callback is None) == bool(batch.pending):
                yield f"{batch} has the callback {batch.callback}"

        return lambda: batch.extend(more, ran.append), faults

    named(name, play)


def extended(world, batch, callback):
    batch.extend(array("q", [5, 6] * 40), callback)
    world.timer.advance(0.005)


def all_over(world, batch, callback):
    world.timer.advance(END)


extends_batch("batch_extend", lambda world, batch, callback: None, 5, 2**36)
extends_batch("batch_extend_far", lambda world, batch, callback: None, 5, FAR)
extends_batch("batch_extend_by_little", extended, 7)
extends_batch("batch_extend_by_much", extended, 7, 900, count=500)
extends_batch("batch_extend_what_is_due", lambda world, batch, callback: None, 0, count=100)
extends_batch("batch_extend_anew", all_over, 7, 900, 0, count=100)


def advances(name, prepare):
    def play(world):
        prepare(world)

        def faults(error):
            world.timer.advance(0)
            yield from ()

        return lambda: world.timer.advance(100), faults

    named(name, play)


advances("advance_tasks", lambda world: [world.later(delay) for delay in (0.001, 0.001, 0.5, 50, 90, 5000)])
advances("advance_batch", lambda world: world.many(array("q", [1, 1, 2, 500, 500, 90_000, FAR])))
advances("advance_batches", lambda world: [world.many(array("q", [5, 5, 5, 70])) for _ in range(3)])
advances(
    "advance_both",
    lambda world: [world.later(0.005), world.many(array("q", [5, 5, 70])), world.later(0.005), world.later(0.07)],
)


@scene
def advance_periodic(world):
    ran = deque(maxlen=3)
    task = world.timer.call_every(0.3, ran.append, 1)
    world.later(0.3)

    def faults(error):
        before = len(ran)
        ran.clear()
        world.timer.advance(0.4)
        if not task.pending or not ran:
            yield f"call_every has ended ({before} runs, then {len(ran)})"
        task.cancel()

    return lambda: world.timer.advance(0.65), faults


def looks(name, look):
    def play(world):
        world.later(0.5)
        world.later(50)
        world.many(array("q", [10, FAR]))
        return look(world), no_faults

    named(name, play)


looks("pending", lambda world: world.timer.pending)
looks("stats", lambda world: world.timer.stats)
looks("next_deadline", lambda world: lambda: world.timer.next_deadline)
looks("time", lambda world: world.timer.time)
looks("deadline", lambda world: lambda: world.tasks[0].deadline_ms)
looks("args", lambda world: lambda: (world.tasks[0].args, world.tasks[0].kwargs, world.tasks[0].callback))
looks("repr", lambda world: lambda: repr(world.tasks[0]))


@scene
def close(world):
    world.later(0.5)
    world.later(FAR / 1000)
    world.many(array("q", [5, 6]))
    back = []

    def act():
        back.append(None)
        back[0] = world.timer.close()

    def faults(error):
        if error is None:
            if len(back[0]) != 3:
                yield f"close() returned {back[0]}"
        elif not world.timer.closed:
            returned = world.timer.close()
            if len(returned) != 3:
                yield f"the second close() returned {len(returned)} of 3"
        else:
            back[:] = [world.timer.close()]
            if len(back[0]) != 3:
                yield f"closed by what raised {error!r}; the second close() returned {len(back[0])} of 3"
        world.start_anew()

    return act, faults


@scene
def close_and_run(world):
    world.later(0.5)
    world.later(FAR / 1000)
    world.many(array("q", [5, 5, FAR]))

    def faults(error):
        if error is not None:
            world.timer.close(run_pending=True)
        timer, world.timer = world.timer, ManualTimer()
        if len(timer):
            yield f"{len(timer)} are pending"

    return lambda: world.timer.close(run_pending=True), faults


@scene
def dump(world):
    world.later(0.5)
    world.later(FAR / 1000)
    world.timer.call_every(1e7, world.ran.append, -1)
    # What has to be there before the memory ends: a method of an object that cannot be pickled would be refused.
    world.timer.close()
    world.start_anew()
    world.timer.call_later(0.5, print_nothing, 1)
    world.timer.call_later(FAR / 1000, print_nothing, [2])
    world.timer.call_every(1e7, print_nothing)
    dumps = [None]

    def act():
        dumps[0] = world.timer.dump(now=0)

    def faults(error):
        if error is not None:
            if not world.timer.closed and len(world.timer) != 3:
                yield f"{len(world.timer)} of 3 are pending after {error!r}"
            act()
        if len(ManualTimer().load(dumps[0], now=0).tasks) != 3:
            yield "not all were written"
        world.start_anew()

    return act, faults


@scene
def load(world):
    with ManualTimer() as timer:
        for delay in (0.5, 7, FAR / 1000):
            timer.call_later(delay, print_nothing, delay)
        timer.call_every(1e7, print_nothing)
        data = timer.dump(now=0)
    world.later(0.5)

    def faults(error):
        if len(world.timer) != (1 if error else 5):
            yield f"{len(world.timer)} are pending after {error!r}"
        for task in world.timer.pending():
            if task not in world.tasks:
                task.cancel()

    return lambda: world.timer.load(data, now=0), faults


# Their Python code has handlers of exceptions so far down that where they stand is a number that CPython has to
# allocate: without any memory it tries that again for ever.
ENDLESS.update(("dump", "load"))
MOST.update(dump=400, load=400)
IN_PYTHON.update(("dump", "load"))


@scene
def new_timer(world):
    return lambda: ManualTimer(wheel_size=64), no_faults


@scene
def new_task(world):
    return lambda: TimerTask(5, print, 1, key=2), no_faults


@scene
def wheel_add_and_poll(world):
    wheel = TimingWheel(1, 4, 0)
    tasks = [TimerTask(5, print) for _ in range(4)]
    wheel.add(tasks[0], 2)
    polled = []
    add, poll = wheel.add, wheel.poll

    def act():
        add(tasks[1], FAR)
        add(tasks[2], 3)
        polled.append(None)
        polled[0] = poll(FAR)

    def faults(error):
        got = [*(polled[0] if polled and polled[0] else []), *wheel.poll(FAR)]
        if len(got) != len({*map(id, got)}) or tasks[0] not in got:
            yield f"{len(got)} came, the first among them: {tasks[0] in got}"
        if [task for task in tasks[:3] if task.pending] or len(wheel):
            yield "something is still there"

    return act, faults


@scene
def wheel_snapshot(world):
    wheel = TimingWheel(1, 4, 0)
    tasks = [TimerTask(5, print) for _ in range(3)]
    for task, at in zip(tasks, (2, 50, FAR), strict=True):
        wheel.add(task, at)

    def faults(error):
        if len(wheel.poll(FAR)) != 3:
            yield "not all came"

    return wheel.snapshot, faults


@scene
def drop_timer(world):
    """It dies with all that is on it, and nothing is left."""
    world.later(0.5)
    world.later(FAR / 1000)
    world.many(array("q", [5, 6, FAR]))
    ended = []
    world.timer.call_later(7, ended.append, Argument(ended))
    timers = [world.timer]
    world.start_anew()
    world.tasks.clear()

    def faults(error):
        if ended:
            yield "something ran"
        if argument_count():
            yield "an argument is kept"

    return timers.clear, faults


class Argument:
    alive = 0

    def __init__(self, ended):
        Argument.alive += 1

    def __del__(self):
        Argument.alive -= 1


def argument_count():
    gc.collect()
    return Argument.alive
