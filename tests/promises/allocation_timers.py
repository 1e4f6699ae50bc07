"""Allocation failures in timers, tasks, batches, groups, and the bare wheel."""

import functools
import gc
import random
from array import array
from collections import deque
from contextvars import copy_context

from allocation_failures import END_S, FAR_MS, no_faults, print_nothing, scenario
from hwheel import ManualTimer, TimerTask, TimingWheel


def adds(name, add, *, to=lambda world, ran: world.timer, runs=1):
    """Register a scenario for an add: the callback runs so many times, or never if the add raised."""

    def prepare(world):
        ran = deque()
        operate = functools.partial(add, to(world, ran), ran)
        world.later(0.002)

        def check(error):
            world.timer.advance(END_S)
            if len(ran) != (runs if error is None else 0):
                yield f"it ran {len(ran)} times after {error!r}"

        return operate, check

    scenario(prepare, name)


CONTEXT = copy_context()
DELAYS = array("q", [1, 5, FAR_MS])
FAR_S = FAR_MS / 1000

adds("call_later", lambda timer, ran: timer.call_later(0.003, ran.append, 1))
adds("call_later_far", lambda timer, ran: timer.call_later(FAR_S, ran.append, 1))
adds("call_at_far", lambda timer, ran: timer.call_at(FAR_S, ran.append, 1))
adds("call_later_due", lambda timer, ran: timer.call_later(0, ran.append, 1))
adds("call_later_with_none", lambda timer, ran: timer.call_later(0.003, ran.append, None))
adds("call_later_in_context", lambda timer, ran: timer.call_later(1, ran.append, 1, context=CONTEXT))
adds("call_later_with_terms", lambda timer, ran: timer.call_later(1, ran.append, 1, slack=1, max_lateness=1))
adds("call_at_with_slack_far", lambda timer, ran: timer.call_at(FAR_S, ran.append, 1, slack=10**6))
adds("new_task_and_add", lambda timer, ran: timer.add(TimerTask(FAR_MS, ran.append, 1)))
adds("call_many", lambda timer, ran: timer.call_many(DELAYS, ran.append), runs=3)
adds("new_group", lambda timer, ran: timer.group().call_later(0.003, ran.append, 1))


def adds_to_group(name, add, runs=1):
    adds(name, add, to=lambda world, ran: world.timer.group(), runs=runs)


adds_to_group("group_call_later", lambda group, ran: group.call_later(0.003, ran.append, 1))
adds_to_group("group_call_at_far", lambda group, ran: group.call_at(FAR_S, ran.append, 1))
adds_to_group("group_call_with_two", lambda group, ran: group.call_later(1, print_nothing, 1, 2), runs=0)


def adds_task(name, delay_ms):
    """Register a scenario for add() of a task that exists already."""
    adds(
        name,
        lambda held, ran: held[0].add(held[1]),
        to=lambda world, ran: (world.timer, TimerTask(delay_ms, ran.append, 1)),
    )


adds_task("add", 5)
adds_task("add_far", FAR_MS)


@scenario
def group_cancel(world):
    group = world.timer.group()
    tasks = [group.call_later(0.5 + i, print_nothing, i) for i in range(3)]
    every = group.call_every(1e7, print_nothing)
    world.later(0.5)

    def check(error):
        if error is not None:
            yield f"{error!r}"
        if len(group) or not every.cancelled or not all(task.cancelled for task in tasks):
            yield "not all were cancelled"

    return group.cancel, check


@scenario
def advance_group(world):
    """An expired task that cannot be dispatched without memory is a member of its group again."""
    group, ran = world.timer.group(), deque(maxlen=8)
    group.call_later(0.001, ran.append, 1)
    group.call_later(FAR_S, ran.append, 2)
    every = group.call_every(0.3, ran.append, 3)

    def check(error):
        world.timer.advance(1)
        if len(group) != 2 or not every.pending or 1 not in ran:
            yield f"{len(group)} in the group, {ran}"
        every.cancel()

    return lambda: world.timer.advance(0.65), check


def adds_periodic(name, *, in_group=False, **terms):
    def prepare(world):
        ran, group = deque(maxlen=3), world.timer.group()
        world.later(0.002)
        made = [None]

        def add():
            made[0] = (group if in_group else world.timer).call_every(0.5, ran.append, 1, **terms)

        def check(error):
            if len(group) != (in_group and error is None):
                yield f"{len(group)} in the group after {error!r}"
            world.timer.advance(0.6)
            if len(ran) != (error is None):
                yield f"ran {len(ran)} times after {error!r}"
            if made[0]:
                made[0].cancel()

        return add, check

    scenario(prepare, name)


adds_periodic("call_every")
adds_periodic("group_call_every", in_group=True)
adds_periodic("call_every_with_terms", slack=0.01, jitter=0.01, random=random.Random(7), max_lateness=1)


@scenario
def missed_task(world):
    """A late task is passed to on_missed, or its error is reported. Either way it has ended, and later tasks run."""
    missed_tasks = deque()
    world.timer = ManualTimer(wheel_size=4, start_ms=5000, on_missed=missed_tasks.append)
    missed = world.timer.call_at(1, world.ran.append, None, max_lateness=1)
    task = world.timer.call_every(0.3, int, jitter=0.1, random=random.Random(7), max_lateness=1)
    world.later(0.3)

    def check(error):
        world.timer.advance(0.4)
        if not task.pending:
            yield f"call_every has ended after {error!r}"
        if missed.callback or len(missed_tasks) > 1 or (error is None and [*missed_tasks] != [missed]):
            yield f"on_missed received {[*missed_tasks]} after {error!r}"
        task.cancel()

    return lambda: world.timer.advance(0.65), check


@scenario
def reschedule_with_slack(world):
    task = world.timer.call_later(0.5, int, slack=0.02)

    def check(error):
        if task.deadline_ms != (512 if error else 999_999_520):
            yield f"deadline {task.deadline_ms} after {error!r}"

    return lambda: task.reschedule(FAR_S - 0.5), check


@scenario
def cancel(world):
    task = world.later(0.5)
    world.later(0.5)

    def check(error):
        if error is not None:
            yield f"{error!r}"
        if not task.cancelled:
            yield "not cancelled"

    return task.cancel, check


def reschedules(name, delay):
    def prepare(world):
        task = world.later(0.5)
        world.later(0.7)

        def check(error):
            want = 0.5 if error else delay
            if task.deadline_ms != round(want * 1000):
                yield f"deadline {task.deadline_ms}, wanted {want} s after {error!r}"

        return lambda: task.reschedule(delay), check

    scenario(prepare, name)


reschedules("reschedule", 0.6)
reschedules("reschedule_far", FAR_S)


def changes_batch(name, change, cancels=0):
    def prepare(world):
        batch = world.many(array("q", [10, 20, 30, FAR_MS // 1000]))
        world.later(0.02)
        bound = change(batch)

        def check(error):
            left = 4 if error or not cancels else 4 - cancels
            if batch.pending != left:
                yield f"{batch.pending} pending, wanted {left}, after {error!r}"
            world.cancelled = 4 - batch.pending

        return bound, check

    scenario(prepare, name)


SOME = array("q", [1, 2])
changes_batch("batch_cancel", lambda batch: batch.cancel, 4)
changes_batch("batch_cancel_array", lambda batch: lambda: batch.cancel(SOME), 2)
changes_batch("batch_cancel_list", lambda batch: lambda: batch.cancel([1, 2]), 2)
changes_batch("batch_cancel_iterator", lambda batch: lambda: batch.cancel(iter((1, 2))), 2)
changes_batch("batch_reschedule", lambda batch: lambda: batch.reschedule(SOME, 50))
changes_batch("batch_reschedule_far", lambda batch: lambda: batch.reschedule(SOME, FAR_MS))
changes_batch("batch_reschedule_all_far", lambda batch: lambda: batch.reschedule(None, FAR_MS))
changes_batch("batch_reschedule_list", lambda batch: lambda: batch.reschedule([0, 3], array("q", [5, FAR_MS])))
changes_batch("batch_indices", lambda batch: batch.indices)


def extends_batch(name, before, *delays_ms, count=1):
    """Register a scenario for extend(): it adds all timers or none, and the others still run."""

    def prepare(world):
        batch = world.many(array("q", [10, 20, FAR_MS // 1000]))
        ran, _ = world.batches[0]
        before(world, batch, ran.append)
        length, pending, more = len(batch), batch.pending, array("q", delays_ms * count)

        def check(error):
            added = 0 if error else len(more)
            world.batches[0] = ran, length + added
            if (len(batch), batch.pending) != (length + added, pending + added):
                yield f"{batch}, wanted {length} + {added}, after {error!r}"
            if (batch.callback is None) == bool(batch.pending):
                yield f"{batch} has the callback {batch.callback}"

        return lambda: batch.extend(more, ran.append), check

    scenario(prepare, name)


def extended(world, batch, callback):
    batch.extend(array("q", [5, 6] * 40), callback)
    world.timer.advance(0.005)


def all_expired(world, batch, callback):
    world.timer.advance(END_S)


extends_batch("batch_extend", lambda world, batch, callback: None, 5, 2**36)
extends_batch("batch_extend_far", lambda world, batch, callback: None, 5, FAR_MS)
extends_batch("batch_extend_by_one", extended, 7)
extends_batch("batch_extend_by_many", extended, 7, 900, count=500)
extends_batch("batch_extend_due", lambda world, batch, callback: None, 0, count=100)
extends_batch("batch_extend_expired", all_expired, 7, 900, 0, count=100)


def advances(name, add_tasks):
    def prepare(world):
        add_tasks(world)

        def check(error):
            world.timer.advance(0)
            yield from ()

        return lambda: world.timer.advance(100), check

    scenario(prepare, name)


advances("advance_tasks", lambda world: [world.later(delay) for delay in (0.001, 0.001, 0.5, 50, 90, 5000)])
advances("advance_batch", lambda world: world.many(array("q", [1, 1, 2, 500, 500, 90_000, FAR_MS])))
advances("advance_batches", lambda world: [world.many(array("q", [5, 5, 5, 70])) for _ in range(3)])
advances(
    "advance_both",
    lambda world: [world.later(0.005), world.many(array("q", [5, 5, 70])), world.later(0.005), world.later(0.07)],
)


@scenario
def advance_periodic(world):
    ran = deque(maxlen=3)
    task = world.timer.call_every(0.3, ran.append, 1)
    world.later(0.3)

    def check(error):
        before = len(ran)
        ran.clear()
        world.timer.advance(0.4)
        if not task.pending or not ran:
            yield f"call_every has ended ({before} runs, then {len(ran)})"
        task.cancel()

    return lambda: world.timer.advance(0.65), check


def reads(name, read):
    def prepare(world):
        world.later(0.5)
        world.later(50)
        world.many(array("q", [10, FAR_MS]))
        return read(world), no_faults

    scenario(prepare, name)


reads("pending", lambda world: world.timer.pending)
reads("stats", lambda world: world.timer.stats)
reads("next_deadline", lambda world: lambda: world.timer.next_deadline)
reads("time", lambda world: world.timer.time)
reads("deadline", lambda world: lambda: world.tasks[0].deadline_ms)
reads("args", lambda world: lambda: (world.tasks[0].args, world.tasks[0].kwargs, world.tasks[0].callback))
reads("repr", lambda world: lambda: repr(world.tasks[0]))


@scenario
def close(world):
    world.later(0.5)
    world.later(FAR_S)
    world.many(array("q", [5, 6]))
    back = []

    def act():
        back.append(None)
        back[0] = world.timer.close()

    def check(error):
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
                yield f"closed although close() raised {error!r}; the second close() returned {len(back[0])} of 3"
        world.replace_timer()

    return act, check


@scenario
def close_and_run(world):
    world.later(0.5)
    world.later(FAR_S)
    world.many(array("q", [5, 5, FAR_MS]))

    def check(error):
        if error is not None:
            world.timer.close(run_pending=True)
        timer, world.timer = world.timer, ManualTimer()
        if len(timer):
            yield f"{len(timer)} are pending"

    return lambda: world.timer.close(run_pending=True), check


def dump(world):
    # The callbacks of World cannot be pickled, so this scenario has tasks of its own.
    world.timer.close()
    world.replace_timer()
    world.timer.call_later(0.5, print_nothing, 1)
    world.timer.call_later(FAR_S, print_nothing, [2])
    world.timer.call_every(1e7, print_nothing)
    dumps = [None]

    def act():
        dumps[0] = world.timer.dump(now=0)

    def check(error):
        if error is not None:
            if not world.timer.closed and len(world.timer) != 3:
                yield f"{len(world.timer)} of 3 are pending after {error!r}"
            act()
        if len(ManualTimer().load(dumps[0], now=0).tasks) != 3:
            yield "not all were dumped"
        world.replace_timer()

    return act, check


def load(world):
    with ManualTimer() as timer:
        for delay in (0.5, 7, FAR_S):
            timer.call_later(delay, print_nothing, delay)
        timer.call_every(1e7, print_nothing)
        data = timer.dump(now=0)
    world.later(0.5)

    def check(error):
        if len(world.timer) != (1 if error else 5):
            yield f"{len(world.timer)} are pending after {error!r}"
        for task in world.timer.pending():
            if task not in world.tasks:
                task.cancel()

    return lambda: world.timer.load(data, now=0), check


# Without any memory these two would never end. CPython allocates the position of an exception handler that is far down
# in the code, and retries forever.
for dumping in (dump, load):
    scenario(dumping, most=400, single_failures=True, runs_python=True)


@scenario
def new_timer(world):
    return lambda: ManualTimer(wheel_size=64), no_faults


@scenario
def new_task(world):
    return lambda: TimerTask(5, print, 1, key=2), no_faults


@scenario
def wheel_add_and_poll(world):
    wheel = TimingWheel(1, 4, 0)
    tasks = [TimerTask(5, print) for _ in range(4)]
    wheel.add(tasks[0], 2)
    polled = []
    add, poll = wheel.add, wheel.poll

    def act():
        add(tasks[1], FAR_MS)
        add(tasks[2], 3)
        polled.append(None)
        polled[0] = poll(FAR_MS)

    def check(error):
        got = [*(polled[0] if polled and polled[0] else []), *wheel.poll(FAR_MS)]
        if len(got) != len({*map(id, got)}) or tasks[0] not in got:
            yield f"{len(got)} expired, the first among them: {tasks[0] in got}"
        if [task for task in tasks[:3] if task.pending] or len(wheel):
            yield "a task is still pending"

    return act, check


@scenario
def wheel_poll_many(world):
    """Tasks that were taken before memory ran out are returned; the rest follows."""
    wheel = TimingWheel(1, 64, 0)
    tasks = [TimerTask(5, print) for _ in range(40)]
    for i, task in enumerate(tasks):
        wheel.add(task, 2 + i)
    polled = [[]]

    def act():
        polled[0] = wheel.poll(FAR_MS)

    def check(error):
        if polled[0] + wheel.poll(FAR_MS) != tasks:
            yield f"{len(polled[0])} were returned first, after {error!r}"

    return act, check


@scenario
def wheel_snapshot(world):
    wheel = TimingWheel(1, 4, 0)
    tasks = [TimerTask(5, print) for _ in range(3)]
    for task, at in zip(tasks, (2, 50, FAR_MS), strict=True):
        wheel.add(task, at)

    def check(error):
        if len(wheel.poll(FAR_MS)) != 3:
            yield "not all tasks expired"

    return wheel.snapshot, check


@scenario
def drop_timer(world):
    """A timer that is dropped releases all of its tasks."""
    world.later(0.5)
    world.later(FAR_S)
    world.many(array("q", [5, 6, FAR_MS]))
    ended = []
    world.timer.call_later(7, ended.append, Argument(ended))
    timers = [world.timer]
    world.replace_timer()
    world.tasks.clear()

    def check(error):
        if ended:
            yield "a task ran"
        if argument_count():
            yield "an argument is kept"

    return timers.clear, check


class Argument:
    alive = 0

    def __init__(self, ended):
        Argument.alive += 1

    def __del__(self):
        Argument.alive -= 1


def argument_count():
    gc.collect()
    return Argument.alive
