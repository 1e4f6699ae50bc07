"""The garbage collector does not see the callbacks of pending tasks and handles until they are released."""

import asyncio
import functools
import gc
import weakref

import pytest

import hwheel.asyncio
from hwheel import ManualTimer, SystemTimer, TimerTask, TimingWheel
from systems import FREE_THREADED
from threads import ManualExecutor

pytestmark = pytest.mark.skipif(FREE_THREADED, reason="without a GIL the collector sees callbacks: see task/call.pxi")


class Owner:
    def method(self, *args):
        pass


class Subclass(TimerTask):
    pass


def with_default(owner):
    def function(value=owner):
        pass

    return function


KINDS = {  # kind -> function(owner) that returns a callback with a reference to the owner
    "bound method": lambda owner: owner.method,
    "builtin method": lambda owner: [owner].copy,
    "closure": lambda owner: lambda: owner,
    "default value": with_default,
    "partial": lambda owner: functools.partial(Owner.method, owner, owner),
    "partial with keywords": lambda owner: functools.partial(dict, owner=owner),
}


def parts(callback):
    """Return the objects of a callback that are tracked while it is not pending."""
    if isinstance(callback, functools.partial):
        return [one for one in (callback, callback.args, callback.keywords) if one]
    closure = getattr(callback, "__closure__", None) or ()
    return [one for one in (callback, closure, *closure, getattr(callback, "__defaults__", None)) if one]


def is_seen(callback):
    seen = {gc.is_tracked(one) for one in parts(callback)}
    assert len(seen) == 1, "the parts of a callback are tracked together"
    return seen == {True}


# --- ways to end a task or a handle ---------------------------------------------------------------------------------
#
# Each function adds a callback that make() returns, calls check() while it is pending, and ends the task.

ENDINGS = {}


def ending(function):
    ENDINGS[function.__name__] = function
    return function


@ending
def cancel(make, check):
    timer = ManualTimer()
    task = timer.call_later(1, make())
    check()
    task.reschedule(2)
    check()
    task.cancel()


@ending
def expire(make, check):
    timer = ManualTimer()
    timer.call_later(1, make())
    check()
    timer.advance(1)


@ending
def cancel_in_a_timer_with_threads(make, check):
    with SystemTimer() as timer:
        task = timer.call_at(timer.time() + 100, make())
        check()
        task.cancel()


@ending
def close_and_run(make, check):
    timer = ManualTimer()
    timer.add(TimerTask(1000, make()))
    check()
    timer.close()[0].run()


@ending
def close_and_forget(make, check):
    timer = ManualTimer()
    timer.add(Subclass(1000, make()))
    check()
    timer.close()


@ending
def drop_the_timer(make, check):
    timer = ManualTimer()
    timer.call_later(1, make())
    check()
    del timer
    gc.collect()


@ending
def poll(make, check):
    wheel = TimingWheel()
    wheel.add(TimerTask(5, make()), 5)
    check()
    wheel.poll(5)


@ending
def refuse(make, check):
    timer = ManualTimer(max_pending=1)
    timer.call_later(1, make())
    check()
    with pytest.raises(RuntimeError):
        timer.call_later(1, make())
    timer.close()


@ending
def cancel_the_group(make, check):
    group = ManualTimer().group()
    group.call_later(1, make())
    group.call_later(1, make(), slack=1)
    check()
    group.cancel()


@ending
def repeat(make, check):
    timer = ManualTimer()
    task = timer.call_every(1, make())
    check()
    timer.advance(3)
    check()
    task.cancel()


@ending
def repeat_until_close(make, check):
    timer = ManualTimer()
    timer.group().call_every(1, make())
    check()
    timer.close()


@ending
def miss(make, check):
    times = [0.0]
    timer = SystemTimer(clock=lambda: times[0], reaper=False, executor="inline")
    timer.call_later(1, make(), max_lateness=1)
    check()
    times[0] = 5.0
    timer.advance_clock(0)
    timer.close()


@ending
def run_in_an_executor(make, check):
    executor = ManualExecutor()
    with SystemTimer(executor=executor) as timer:
        timer.call_later(0.001, make())
        executor.run_one()


@ending
def await_and_cancel(make, check):
    timer = ManualTimer()
    task = timer.call_later(1, make())
    check()

    async def main():
        waiting = asyncio.ensure_future(task)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())


@ending
def end_one_of_two_tasks(make, check):
    timer = ManualTimer()
    callback = make()
    first, second = timer.call_later(1, callback), timer.call_later(1, callback)
    del callback
    check()
    first.cancel()
    second.cancel()


def in_a_loop(use):
    """Return an ending that calls use(loop, make, check) in a running wheel loop."""

    def run(make, check):
        async def main():
            use(asyncio.get_running_loop(), make, check)
            await asyncio.sleep(0.001)

        hwheel.asyncio.run(main())

    return run


def cancel_a_handle(loop, make, check):
    handle = loop.call_later(60, make())
    check()
    handle.reschedule(90)
    check()
    handle.cancel()


def call_a_handle(loop, make, check):
    loop.call_later(0.000_01, make())
    check()


def show_a_handle(loop, make, check):
    handle = loop.call_later(60, make())
    check()
    handle.get_context()


def leave_a_handle(loop, make, check):
    loop.call_at(loop.time() + 60, make())
    check()


for of_loop in (cancel_a_handle, call_a_handle, show_a_handle, leave_a_handle):
    ENDINGS[of_loop.__name__] = in_a_loop(of_loop)


# --- tests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_callback_is_hidden_while_it_is_pending(kind, end):
    def check():
        checks.append(is_seen(callback))

    checks = []
    owner = Owner()
    callback = owner.callback = KINDS[kind](owner)
    assert is_seen(callback)
    end(lambda: callback, check)
    assert not any(checks) and (checks or end is run_in_an_executor)
    assert is_seen(callback)
    gone = weakref.ref(owner)
    owner = callback = None
    gc.collect()
    assert gone() is None, "a cycle through the callback is not collected"


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_callback_that_only_its_task_owns_is_released(kind, end, no_gc):
    # CPython crashes if it deallocates a method, function, or cell that is not tracked.
    owner = Owner()
    end(lambda: KINDS[kind](owner), lambda: None)
    gone = weakref.ref(owner)
    owner = None
    assert gone() is None


@pytest.mark.parametrize("kind", KINDS)
def test_pending_callbacks_add_no_tracked_objects(kind):
    async def main():
        loop = asyncio.get_running_loop()
        gc.collect()
        before = len(gc.get_objects())
        for i in range(10_000):
            loop.call_later(60 + i, KINDS[kind](owner))
            timer.call_later(60 + i, KINDS[kind](owner))
        lists = 20_000 if kind == "builtin method" else 0  # each method is bound to a list of its own
        assert lists <= len(gc.get_objects()) - before < lists + 1000

    owner, timer = Owner(), ManualTimer()
    hwheel.asyncio.run(main())


def test_references_from_a_pending_task_to_its_callback_are_safe():
    timer = ManualTimer()
    task = timer.call_later(1, Owner().method)
    method = task.callback
    assert method in gc.get_referents(task) and not gc.is_tracked(method)
    task.cancel()
    assert gc.is_tracked(method)
    del method  # an untracked method would crash CPython here


def test_a_function_that_loses_its_default_values_while_it_is_pending():
    timer = ManualTimer()
    task = timer.call_later(1, with_default(Owner()))
    task.callback.__defaults__ = None
    task.cancel()  # an untracked function would crash CPython here


def test_a_method_inside_a_partial_and_a_method_as_an_argument_stay_visible():
    # partial.__setstate__() could drop the method while the task is pending.
    owner = Owner()
    inside, argument = owner.method, owner.method
    timer = ManualTimer()
    callback = functools.partial(inside, 1)
    timer.call_later(1, callback, argument)
    callback.__setstate__((print, (), {}, {}))
    assert gc.is_tracked(inside) and gc.is_tracked(argument)
    timer.close()
