"""Loops on the wheel and the garbage collector."""

import asyncio
import gc
import sys
import warnings
import weakref

import pytest

from hwheel.asyncio import EventLoop, Timeouts
from systems import FREE_THREADED

what_is_hidden = pytest.mark.skipif(FREE_THREADED, reason="without a GIL nothing is hidden: see loop/at_rest.pxi")


class Holder:
    def callback(self):
        pass


def drop(loop):
    """As a program that forgets to close its loop."""
    gone = weakref.ref(loop)
    del loop
    return gone


def collect():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
        gc.collect()


def test_a_loop_that_nobody_closed_is_collected_with_its_timers():
    loop = EventLoop()
    holder = Holder()
    holder.loop = loop
    holder.handles = [loop.call_later(delay, holder.callback) for delay in (0.01, 10, 1e5, 1e9)]
    gone = weakref.ref(holder), weakref.ref(loop)
    del holder, loop
    collect()
    assert [each() for each in gone] == [None, None]


def test_so_is_one_that_has_run():
    loop = EventLoop()
    holder = Holder()
    holder.loop = loop

    def add():
        holder.handles = [loop.call_later(delay, holder.callback) for delay in (0.01, 10, 1e5, 1e9)]
        tracked.extend(gc.is_tracked(handle) for handle in holder.handles)
        loop.stop()

    tracked = []
    loop.call_soon(add)
    loop.run_forever()
    assert tracked == [FREE_THREADED] * 4  # hidden while the loop runs, but for want of a GIL
    gone = weakref.ref(holder), weakref.ref(loop)
    holder = loop = add = None
    collect()
    assert [each() for each in gone] == [None, None]


@what_is_hidden
def test_leaving_a_run_does_not_look_at_what_is_pending():
    loop = EventLoop()

    def add():
        handles.extend(loop.call_later(10, int) for _ in range(100))
        loop.stop()

    handles = []
    loop.call_soon(add)
    loop.run_forever()
    assert not any(gc.is_tracked(handle) for handle in handles)
    gc.collect(0)  # could not free the loop, which has been seen by a collection before
    gc.collect()
    assert all(gc.is_tracked(handle) and gc.is_tracked(handle.get_context()) for handle in handles)
    loop.close()


def run_and_add(loop, delay):
    """Lets the loop run, and in it adds a timer that leads back to the loop."""

    def add():
        holder.handle = loop.call_later(delay, holder.callback)
        loop.stop()

    holder = Holder()
    holder.loop = loop
    loop.call_soon(add)
    loop.run_forever()
    return holder


@what_is_hidden
def test_what_a_loop_at_rest_holds_is_shown_again_after_each_run():
    loop = EventLoop()
    for delay in (10, 20):
        holder = run_and_add(loop, delay)
        gc.collect()
        assert gc.is_tracked(holder.handle)
    gone = weakref.ref(loop)
    holder = loop = None
    collect()
    assert gone() is None


def test_a_program_that_empties_the_collectors_callbacks_loses_a_loop_only_until_the_next_run():
    loops = [EventLoop() for _ in range(2)]
    others = gc.callbacks[:]
    run_and_add(loops[0], 10)
    gc.callbacks.clear()
    try:
        run_and_add(loops[1], 10)
        gone = [weakref.ref(loop) for loop in loops]
        loops = None
        collect()
        assert [each() for each in gone] == [None, None]
    finally:
        gc.callbacks.extend(each for each in others if each not in gc.callbacks)


@pytest.mark.parametrize("keeps", [False, True])
def test_what_is_pending_in_a_loop_at_rest_may_be_let_go_of_unseen(keeps):
    def add():
        handles.extend(loop.call_later(10, int) for _ in range(100))
        if not keeps:
            handles.clear()
        loop.stop()

    handles = []
    loop = EventLoop()
    loop.call_soon(add)
    gc.disable()
    try:
        loop.run_forever()
        loop.close()
        assert all(gc.is_tracked(handle) and gc.is_tracked(handle.get_context()) for handle in handles)
        handles.clear()  # CPython crashed here, or in close(), where a context was still hidden
    finally:
        gc.enable()


def test_a_loop_that_was_freed_at_rest_is_forgotten():
    loop = EventLoop()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    gone = weakref.ref(loop)
    del loop
    assert gone() is None
    gc.collect()  # walks the loops at rest


def test_pending_timers_of_a_running_loop_are_left_alone():
    async def main():
        loop = asyncio.get_running_loop()
        holder = Holder()
        gone = weakref.ref(holder)
        holder.handle = loop.call_later(0.01, holder.callback)
        seen = asyncio.Event()
        loop.call_later(0.02, seen.set)
        del holder
        gc.collect()
        assert gone() is not None
        await seen.wait()
        gc.collect()
        return gone()

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        assert runner.run(main()) is None


@what_is_hidden
def test_what_ran_or_was_cancelled_is_in_sight_again():
    async def main():
        loop = asyncio.get_running_loop()
        first, second, third = loop.call_later(0.001, int), loop.call_later(10, int), loop.call_later(10, int)
        assert not gc.is_tracked(first)
        second.cancel()
        assert gc.is_tracked(third.get_context())
        third.cancel()
        await asyncio.sleep(0.01)
        return [gc.is_tracked(each) for each in (first, second, third)]

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        assert runner.run(main()) == [True] * 3


def test_a_closed_loop_is_freed_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        loop = EventLoop()
        loop.call_later(10, int)
        loop.close()
        gone = weakref.ref(loop)
        del loop
        assert gone() is None
    finally:
        gc.enable()


def test_timeouts_are_collected_too():
    loop = asyncio.new_event_loop()
    timeouts = Timeouts(loop)
    holder = Holder()
    holder.handle = timeouts.call_later(1e6, holder.callback)
    gone = weakref.ref(holder), weakref.ref(timeouts)
    del holder, timeouts
    loop.close()
    del loop
    collect()
    assert [each() for each in gone] == [None, None]


@pytest.mark.parametrize("exit_with", [KeyboardInterrupt, SystemExit])
def test_an_exit_in_a_pass_leaves_nothing_behind(exit_with):
    def leave():
        raise exit_with

    loop = EventLoop()
    holder = Holder()
    when = loop.time() + 0.001
    loop.call_at(when, leave)
    for _ in range(600):
        loop.call_at(when, holder.callback)
    with pytest.raises(exit_with):
        loop.run_forever()
    gone = weakref.ref(holder)
    del holder
    loop.close()
    assert gone() is None


def test_the_collector_finds_who_holds_a_handle_and_looks_no_further():
    loop = EventLoop()
    near, far = loop.call_later(10, int), loop.call_later(1e6, int)
    timers = loop._wheel_timers
    assert all(timers in gc.get_referrers(handle) for handle in (near, far))
    loop.close()


def test_it_finds_also_who_holds_what_a_pass_that_was_left_has_not_run():
    loop = EventLoop()
    when = loop.time() + 0.001
    loop.call_at(when, sys.exit)
    left = loop.call_at(when, int)
    with pytest.raises(SystemExit):
        loop.run_forever()
    assert loop._wheel_timers in gc.get_referrers(left)
    left.cancel()
    loop.close()
