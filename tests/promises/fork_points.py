"""The points at which a child is forked, each a function of a World, by name."""

import faulthandler
import functools
import itertools
import multiprocessing
import os
import signal
import threading
import time
from array import array

from fork_child import World, check_child, fill, report
from waiting import wait_until

POINTS = {}


def point(function):
    POINTS[function.__name__.replace("_", " ")] = function
    return function


@point
def before_the_first_add(world):
    world.fork()
    fill(world)


@point
def after_adds(world):
    fill(world)
    world.fork()


@point
def after_something_has_run(world):
    fill(world)
    world.wait_for(lambda: len(world.account.ran) == 3)
    world.fork()


@point
def after_a_cancel(world):
    fill(world)
    world.account.tasks[0].cancel()
    world.account.cancelled.add(0)
    world.fork()


@point
def in_adds_by_another_thread(world):
    stop = threading.Event()

    def add():
        while not stop.is_set():
            world.timer.call_later(3600, int).cancel()

    thread = threading.Thread(target=add)
    thread.start()
    for _ in range(3):
        time.sleep(0.005)
        world.fork()
    stop.set()
    thread.join()


@point
def in_a_cascade_by_another_thread(world):
    # At the fork, a thread that the child lacks is dispatching some of them.
    delays = array("q", [200 + i % 100 for i in range(100_000)])
    account, timer = world.account, world.timer
    account.many(timer, delays)
    for _ in range(4):
        time.sleep(0.06)
        world.fork(in_flight=100_000)
    world.wait_for(lambda: len(timer) == 0)


@point
def during_dispatch(world):
    account, timer = world.account, world.timer
    for i in range(2000):
        account.later(timer, 0.05 + i / 100_000)
    for _ in range(3):
        time.sleep(0.02)
        world.fork(in_flight=2000 if world.executor == "pool" else 1)
    world.wait_for(lambda: len(account.ran) == 2000)


def in_callback(world, how):
    """Fork in the callback of a task while others wait behind it."""
    account, timer = world.account, world.timer
    world.ending = how
    here = threading.current_thread()

    def run(argument):
        if world.top == os.getpid() and not world.children:
            child = world.fork(running=[argument.number])
            if not child:
                account.run(argument)
        else:
            report("the callback ran twice")

    fill(world)
    account.later(timer, 0.01, run)
    world.wait_for(lambda: world.children)
    assert threading.current_thread() is here


for ending in ["exit", "_exit", "return", "return unclosed"]:
    POINTS[f"inside a callback, then {ending}"] = functools.partial(in_callback, how=ending)


@point
def inside_a_callback_that_returns_at_once(world):
    """The child does not use the timer. It must end when the callback returns."""
    account, timer = world.account, world.timer

    def run(argument):
        pid = os.fork()
        if pid:
            world.add_child(pid)
            account.run(argument)

    account.later(timer, 3600)
    account.later(timer, 0.01, run)
    world.wait_for(lambda: world.children)
    ends_in_time(world)


@point
def inside_a_callback_that_adds_and_returns(world):
    """In the child, an executor with one thread still runs one callback at a time."""
    account, timer = world.account, world.timer
    inside, ran, both = [], [], []

    def short():
        inside.append(1)
        if len(inside) > 1 and world.executor != "pool" and not both:
            both.append(1)
            report("in the child: two callbacks at once")
        time.sleep(0.005)
        inside.pop()
        ran.append(1)

    def run(argument):
        pid = os.fork()
        if pid:
            world.add_child(pid)
            account.run(argument)
            return
        for _ in range(40):
            timer.call_later(0, short)
        wait_until(lambda: len(ran) >= 10, 3)

    account.later(timer, 0.01, run)
    world.wait_for(lambda: world.children)
    ends_in_time(world)


def ends_in_time(world):
    for pid in world.children:
        if not wait_until(lambda pid=pid: os.waitpid(pid, os.WNOHANG)[0], 10):
            report("a child whose callback returned does not end")
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    world.children.clear()


@point
def inside_a_batch_callback(world):
    timer = world.timer
    world.ending = "_exit"
    ran = []

    def run(indices):
        ran.extend(indices)
        if not world.children and world.top == os.getpid():
            world.fork()

    batch = timer.call_many(array("q", [10, 5000, 7_200_000]), run)
    fill(world)
    world.wait_for(lambda: world.children)
    assert batch.cancel() == 2


@point
def inside_a_run_of_call_every(world):
    account, timer = world.account, world.timer
    world.ending = "_exit"

    def run():
        account.every_ran.append(1)
        if not world.children and world.top == os.getpid():
            world.fork()

    every = timer.call_every(0.02, run)
    world.wait_for(lambda: world.children)
    world.wait_for(lambda: len(account.every_ran) > 5)
    every.cancel()


def while_running(world, add):
    account = world.account
    started, hold = threading.Event(), threading.Event()
    add(started, hold)
    fill(world)
    world.wait_for(started.is_set)
    world.fork(every=True if add.__name__ == "every" else None, running=[0] if account.tasks.get(0) else [])
    hold.set()


@point
def while_a_callback_runs(world):
    def add(started, hold):
        def run(argument):
            started.set()
            hold.wait(60)
            world.account.run(argument)

        world.account.later(world.timer, 0.01, run)

    while_running(world, add)


@point
def while_call_every_runs(world):
    tasks = []

    def every(started, hold):
        def run():
            world.account.every_ran.append(1)
            if not started.is_set():
                started.set()
                hold.wait(60)

        tasks.append(world.timer.call_every(0.02, run))

    while_running(world, every)
    tasks[0].cancel()


def during_close(world, **how):
    account, timer = world.account, world.timer
    started, hold = threading.Event(), threading.Event()

    def run(argument):
        started.set()
        hold.wait(60)
        account.run(argument)

    account.later(timer, 0.01, run)
    fill(world)
    started.wait(20)
    closing = threading.Thread(target=lambda: account.close(timer, **how))
    closing.start()
    wait_until(lambda: timer.closed)
    time.sleep(0.05)
    world.fork(running=[0], closed=True)
    hold.set()
    closing.join()


POINTS["during close in another thread"] = during_close
POINTS["during close running the rest in another thread"] = functools.partial(during_close, run_pending=True)


@point
def after_close(world):
    fill(world)
    world.account.close(world.timer)
    world.fork(closed=True)


@point
def leaving_it_open(world):
    world.ending = "exit unclosed"
    fill(world)
    world.fork()


@point
def a_child_of_a_child(world):
    world.ending = "grandchild"
    fill(world)
    if (pid := os.fork()) == 0:
        fill(world)
        if (inner := os.fork()) == 0:
            world.ending = "exit"
            world.fork()
            world.join_children()
            os._exit(0)
        _, status = os.waitpid(inner, 0)
        os._exit(0 if status == 0 else 1)
    world.add_child(pid)


@point
def in_a_process_of_multiprocessing(world):
    fill(world)
    world.ending = "return"
    process = multiprocessing.get_context("fork").Process(target=check_child, args=(world,))
    process.start()
    world.forks += 1
    process.join(30)
    if process.exitcode != 0:
        report(f"the process ended with status {process.exitcode}")
        process.kill()


@point
def inside_an_advance(world):
    """Parent and child both continue the advance."""
    account, timer = world.account, world.timer
    fill(world)

    def run(argument):
        world.add_child(os.fork())
        account.run(argument)

    account.later(timer, 0.01, run)
    timer.advance(1)
    if world.children == [0]:
        world.children.clear()
        world.end()
        os._exit(0)


MANUAL = [
    "before the first add",
    "after adds",
    "after something has run",
    "after a cancel",
    "leaving it open",
    "a child of a child",
    "after close",
]
# A child that returns from a callback of a ThreadPoolExecutor continues in its worker loop, which does not end.
RETURNS = {name for name in POINTS if "then" in name and "_exit" not in name or "returns" in name}


def fork_cases(exhaustive):
    """Yield each point with every executor, or with one executor in turn."""
    turn = itertools.cycle([(executor, keep) for keep in ["drop", "keep"] for executor in ["own", "inline", "pool"]])
    for name in [name for name in POINTS if name != "inside an advance"]:
        for _ in range(6 if exhaustive else 1):
            executor, keep = next(turn)
            if executor != "pool" or name not in RETURNS:
                yield f"{name} / {executor} / {keep}"
            elif not exhaustive:
                yield f"{name} / own / {keep}"
        if name in MANUAL:
            yield f"{name} / manual / keep"
    yield "inside an advance / manual / keep"


def run(case):
    faulthandler.cancel_dump_traceback_later()  # otherwise the child could not end
    faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
    signal.alarm(100)
    name, executor, keep = case.split(" / ")
    world = World(executor, keep == "keep")
    POINTS[name](world)
    world.end()
