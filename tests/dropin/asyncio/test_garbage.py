"""Loops on the wheel and the garbage collector."""

import asyncio
import gc
import sys
import warnings
import weakref

import pytest

from hwheel.asyncio import EventLoop, Timeouts
from systems import FREE_THREADED

needs_untracking = pytest.mark.skipif(
    FREE_THREADED, reason="without a GIL all handles are tracked, see loop/collector.pxi"
)


class Holder:
    def callback(self):
        pass


def run_once(loop, function):
    """Run the loop for one pass that calls the function."""

    async def main():
        function()

    loop.run_until_complete(main())


def collect():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
        gc.collect()


@pytest.mark.parametrize("has_run", [False, True])
def test_unclosed_loop_is_collected_with_its_timers(has_run):
    def add():
        holder.handles = [loop.call_later(delay, holder.callback) for delay in (0.01, 10, 1e5, 1e9)]
        # Untracked while the loop runs, except without a GIL.
        assert [gc.is_tracked(handle) for handle in holder.handles] == [FREE_THREADED or not has_run] * 4

    loop = EventLoop()
    holder = Holder()
    holder.loop = loop
    if has_run:
        run_once(loop, add)
    else:
        add()
    gone = weakref.ref(holder), weakref.ref(loop)
    holder = loop = add = None
    collect()
    assert [each() for each in gone] == [None, None]


@needs_untracking
def test_pending_handles_stay_untracked_after_a_run():
    loop = EventLoop()

    def add():
        handles.extend(loop.call_later(10, int) for _ in range(100))
        loop.stop()

    handles = []
    loop.call_soon(add)
    loop.run_forever()
    assert not any(gc.is_tracked(handle) for handle in handles)
    gc.collect(0)  # skips the loop, which is in an older generation
    gc.collect()
    assert all(gc.is_tracked(handle) and gc.is_tracked(handle.get_context()) for handle in handles)
    loop.close()


def run_and_add(loop, delay):
    """Run the loop, and in it add a timer with a reference to the loop."""

    def add():
        holder.handle = loop.call_later(delay, holder.callback)
        loop.stop()

    holder = Holder()
    holder.loop = loop
    loop.call_soon(add)
    loop.run_forever()
    return holder


@needs_untracking
def test_collection_tracks_handles_of_a_resting_loop_after_each_run():
    loop = EventLoop()
    for delay in (10, 20):
        holder = run_and_add(loop, delay)
        gc.collect()
        assert gc.is_tracked(holder.handle)
    gone = weakref.ref(loop)
    holder = loop = None
    collect()
    assert gone() is None


def test_next_run_restores_a_cleared_gc_callback():
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
def test_untracked_handles_are_released_safely(keeps):
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
        handles.clear()  # an untracked context would crash CPython here or in close()
    finally:
        gc.enable()


def test_freed_resting_loop_is_forgotten():
    loop = EventLoop()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    gone = weakref.ref(loop)
    del loop
    assert gone() is None
    gc.collect()  # traverses the resting loops


def test_pending_timers_of_a_running_loop_survive_a_collection():
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


@needs_untracking
def test_finished_and_cancelled_handles_are_tracked():
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


def test_closed_loop_is_freed_without_the_collector():
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


def test_timeouts_are_collected():
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
def test_exit_in_a_pass_leaks_nothing(exit_with):
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


def test_pending_handle_has_the_wheel_as_referrer():
    loop = EventLoop()
    near, far = loop.call_later(10, int), loop.call_later(1e6, int)
    timers = loop._wheel_timers
    assert all(timers in gc.get_referrers(handle) for handle in (near, far))
    loop.close()


def test_handle_of_an_aborted_pass_has_the_wheel_as_referrer():
    loop = EventLoop()
    when = loop.time() + 0.001
    loop.call_at(when, sys.exit)
    left = loop.call_at(when, int)
    with pytest.raises(SystemExit):
        loop.run_forever()
    assert loop._wheel_timers in gc.get_referrers(left)
    left.cancel()
    loop.close()
