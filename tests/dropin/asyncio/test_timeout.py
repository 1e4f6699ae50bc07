"""hwheel.asyncio.timeout(), Timeout, idle_timeout(), and wait_for(): asyncio's behavior, on every loop.

CPython's own tests of these classes run in test_cpython.py.
"""

import asyncio
import contextvars
import gc
import inspect
import math
import os
import sys
import threading
import time
import weakref

import pytest

import hwheel.asyncio
from event_loops import FACTORIES
from hwheel.asyncio import EventLoop, Timeout, idle_timeout, timeout, timeout_at, wait_for

NEVER_S = 3600


@pytest.fixture(params=list(FACTORIES))
def run(request):
    def run(coroutine, **options):
        with asyncio.Runner(loop_factory=FACTORIES[request.param], **options) as runner:
            return runner.run(coroutine)

    return run


async def expire(limit):
    with pytest.raises(TimeoutError) as caught:
        async with limit:
            await asyncio.sleep(NEVER_S)
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)


@pytest.mark.parametrize("debug", [False, True])
def test_the_block_is_cancelled_at_the_deadline(run, debug):
    async def main():
        loop = asyncio.get_running_loop()
        start = loop.time()
        limit = timeout(0.01)
        assert start + 0.01 <= limit.when() <= loop.time() + 0.01
        await expire(limit)
        assert loop.time() >= limit.when() - (0.001 if "uvloop" in repr(loop) else 0)
        assert limit.expired()
        assert asyncio.current_task().cancelling() == 0

    run(main(), debug=debug)


def test_a_subclass_expires_and_has_its_own_arguments_and_methods(run):
    class Movable(Timeout):  # as in async_timeout
        def __init__(self, when, loop):
            super().__init__(when)
            self.loop = loop

        @property
        def expired(self):
            return "yes" if super().expired() else "no"

        def shift(self, delay):
            self.reschedule(self.when() + delay)

    async def main():
        loop = asyncio.get_running_loop()
        limit = Movable(loop.time() + 0.01, loop)
        await expire(limit)
        assert limit.expired == "yes" and limit.loop is loop
        async with Movable(loop.time() + 0.01, loop) as limit:
            limit.shift(NEVER_S)
            await asyncio.sleep(0.02)
            assert limit.expired == "no"
            gc.collect()

    run(main())


@pytest.mark.parametrize("delay", [0, -1, -math.inf])
def test_a_deadline_in_the_past_cancels_at_the_first_suspension(run, delay):
    async def main():
        limit = timeout(delay)
        async with limit:
            pass
        assert not limit.expired()
        await expire(timeout(delay))

    run(main())


def test_a_block_that_ends_in_time_leaves_no_timer(run):
    async def main():
        loop = asyncio.get_running_loop()
        async with timeout(NEVER_S) as limit:
            await asyncio.sleep(0)
        assert not limit.expired()
        if hasattr(loop, "_wheel_timers"):
            assert len(loop._wheel_timers) == 0
        with pytest.raises(ValueError):
            async with timeout(NEVER_S):
                raise ValueError
        reference = weakref.ref(limit)
        del limit
        assert reference() is None

    run(main())


def test_reprs_and_when_match_asyncio(run):
    async def main():
        for when in (None, 10**9, 1e9 + 0.12345):
            for Class in (Timeout, asyncio.Timeout):
                limit = Class(when)
                shown = [repr(limit)]
                async with limit:
                    shown.append(repr(limit))
                shown.append(repr(limit))
                assert shown == [
                    "<Timeout [created]>",
                    f"<Timeout [active] when={None if when is None else round(when, 3)}>",
                    "<Timeout [finished]>",
                ]
                assert limit.when() == when
                assert type(limit.when()) is type(when)
        assert timeout(None).when() is None

    run(main())


def test_misuse_raises(run):
    async def main():
        limit = timeout(NEVER_S)
        with pytest.raises(RuntimeError, match="not been entered"):
            limit.reschedule(1)
        async with limit:
            with pytest.raises(RuntimeError, match="already been entered"):
                async with limit:
                    pass
            when = limit.when()
            with pytest.raises(TypeError):
                limit.reschedule("soon")
            assert limit.when() == when
        with pytest.raises(RuntimeError, match="finished"):
            limit.reschedule(1)
        with pytest.raises(RuntimeError, match="already been entered"):
            async with limit:
                pass
        with pytest.raises(TypeError):
            await limit
        for wrong in ("1", [], object()):
            with pytest.raises(TypeError):
                timeout(wrong)
            with pytest.raises(TypeError):
                timeout_at(wrong)
        with pytest.raises(RuntimeError, match="inside a task"):
            await outside_of_a_task()

    run(main())


async def outside_of_a_task():
    """Enter a timeout in a callback of the loop, which no task runs."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def enter():
        try:
            timeout(1).__aenter__().__await__().__next__()
        except BaseException as error:
            done.set_exception(error)

    loop.call_soon(enter)
    await done


def test_without_a_running_loop():
    with pytest.raises(RuntimeError, match="no running event loop"):
        timeout(1)
    assert repr(timeout_at(1)) == "<Timeout [created]>"


def test_reschedule_moves_the_deadline_both_ways(run):
    async def main():
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError):
            async with timeout(NEVER_S) as limit:
                limit.reschedule(loop.time() + 0.01)
                await asyncio.sleep(NEVER_S)
        async with timeout(0.01) as limit:
            limit.reschedule(None)
            await asyncio.sleep(0.03)
            limit.reschedule(loop.time() + NEVER_S)
        with pytest.raises(TimeoutError):
            async with timeout(NEVER_S) as limit:
                limit.reschedule(loop.time())
                await asyncio.sleep(NEVER_S)

    run(main())


def test_an_exception_in_consequence_of_the_timeout_names_it(run):
    async def main():
        with pytest.raises(KeyError) as caught:
            async with timeout(0.01):
                try:
                    await asyncio.sleep(NEVER_S)
                finally:
                    raise KeyError
        assert isinstance(caught.value.__context__, TimeoutError)

    run(main())


def test_arguments_by_keyword(run):
    async def main():
        async with timeout(delay=NEVER_S) as limit:
            limit.reschedule(when=None)
        async with timeout_at(when=None), idle_timeout(delay=NEVER_S):
            pass
        limit = timeout(None)
        await limit.__aenter__()
        await limit.__aexit__(exc_type=None, exc_val=None, exc_tb=None)

    run(main())


def test_entering_and_leaving_can_be_awaited_later(run):
    async def main():
        limit = timeout(NEVER_S)
        entering = limit.__aenter__()
        leaving = limit.__aexit__(None, None, None)
        assert await entering is limit
        assert await leaving is None
        for used in (entering, leaving):
            with pytest.raises(RuntimeError, match="already awaited"):
                await used

    run(main())


def test_tasks_of_other_classes(run):
    """Their methods may return anything, and cancel() sees the context of the block."""
    variable = contextvars.ContextVar("variable", default="unset")
    seen = []

    class OddTask(asyncio.Task):
        def cancelling(self):
            return -1

        def uncancel(self):
            return super().uncancel() - 1

        def cancel(self, msg=None):
            seen.append(variable.get())
            return super().cancel(msg)

    async def block():
        variable.set("set")
        await expire(timeout(0.01))

    async def main():
        await OddTask(block(), loop=asyncio.get_running_loop())
        assert seen == ["set"]

    run(main())


def test_a_timeout_cannot_be_called_as_a_callback(run):
    """Only its own timer can expire a timeout."""

    async def main():
        loop = asyncio.get_running_loop()
        reports = []
        loop.set_exception_handler(lambda loop, context: reports.append(context["exception"]))
        async with timeout(NEVER_S) as limit:
            loop.call_later(0.001, limit)
            await asyncio.sleep(0.02)
        assert not limit.expired()
        assert [type(error) for error in reports] == [TypeError]
        loop.set_exception_handler(None)  # holds this frame

    run(main())


# --- a timeout created elsewhere than entered ------------------------------------------------------------------------


def test_a_timeout_of_another_loop_uses_the_loop_that_enters_it(run):
    made = []

    async def make():
        made.extend([timeout(0.02), timeout(None)])

    asyncio.run(make())

    async def main():
        await expire(timeout_at(asyncio.get_running_loop().time() + 0.01))
        async with made[1]:
            pass

    run(main())


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="from Python 3.14 on, asyncio runs no task inside another one")
def test_a_loop_that_runs_inside_another_one_is_the_running_one():
    """Some programs hide the outer loop and run another one in the same thread."""
    inner = asyncio.new_event_loop()

    async def main():
        outer = asyncio.get_running_loop()
        async with timeout(NEVER_S):
            asyncio._set_running_loop(None)
            try:
                inner.run_until_complete(expire(timeout_at(inner.time() + 0.01)))
            finally:
                asyncio._set_running_loop(outer)
            await expire(timeout(0.01))
        assert asyncio.current_task().cancelling() == 0

    hwheel.asyncio.run(main())
    inner.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the running loop survives a fork from Python 3.14 on")
def test_the_child_of_a_fork_has_no_running_loop():
    async def main():
        async with timeout(NEVER_S):
            pid = os.fork()
            if pid == 0:
                try:
                    timeout(1)
                except RuntimeError:
                    os._exit(0)
                os._exit(1)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert hwheel.asyncio.run(main()) == 0


def test_each_thread_has_its_own_running_loop():
    async def main(number):
        for _ in range(20):
            await expire(timeout(0.001 * number))

    threads = [threading.Thread(target=hwheel.asyncio.run, args=(main(number),)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_an_overridden_call_at_sees_timeouts():
    class Recorded(EventLoop):
        asked = 0

        def call_at(self, when, callback, *args, context=None):
            self.asked += 1
            return super().call_at(when, callback, *args, context=context)

    async def main():
        async with timeout(NEVER_S):
            pass
        return asyncio.get_running_loop().asked

    with asyncio.Runner(loop_factory=Recorded) as runner:
        assert runner.run(main()) > 0


# --- the garbage collector --------------------------------------------------------------------------------------------


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="only with a GIL")
def test_pending_timeouts_are_hidden_from_the_collector():
    async def block(entered):
        async with timeout(NEVER_S) as limit:
            entered.append(limit)
            await asyncio.sleep(NEVER_S)

    async def main():
        entered = []
        tasks = [asyncio.ensure_future(block(entered)) for _ in range(10)]
        await asyncio.sleep(0)
        assert len(entered) == 10
        assert not any(gc.is_tracked(limit) for limit in entered)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    hwheel.asyncio.run(main())


def test_an_unclosed_loop_is_collected_with_its_timeouts():
    async def block():
        async with timeout(NEVER_S):
            await asyncio.get_running_loop().create_future()

    def leave():
        loop = EventLoop()
        task = loop.create_task(block())
        task._log_destroy_pending = False
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop._selector.close()
        loop._ssock.close()
        loop._csock.close()
        loop._closed = True  # no warning
        return weakref.ref(task)

    reference = leave()
    gc.collect()
    assert reference() is None


# --- idle_timeout() ------------------------------------------------------------------------------------------------


def test_touching_an_idle_timeout_keeps_it(run):
    async def main():
        loop = asyncio.get_running_loop()
        async with idle_timeout(NEVER_S) as idle:
            for _ in range(3):
                idle.reschedule(loop.time() + 0.002)
                time.sleep(0.01)  # the deadline passes, but the loop has not noticed it
                before = loop.time()
                assert idle.touch()
                assert before + NEVER_S <= idle.when() <= loop.time() + NEVER_S
                await asyncio.sleep(0.01)
            assert not idle.expired()
        with pytest.raises(TimeoutError):
            async with idle_timeout(0.01) as idle:
                touched = loop.time()
                assert idle.touch()
                await asyncio.sleep(NEVER_S)
        assert loop.time() >= touched + 0.009
        assert idle.expired()
        assert not idle.touch()

    run(main())


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("moved_to_s", [None, 1000, 0.5])
def test_touch_overrides_a_reschedule(run, moved_to_s, debug):
    async def main():
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError):
            async with idle_timeout(0.05) as idle:
                idle.reschedule(None if moved_to_s is None else loop.time() + moved_to_s)
                start = loop.time()
                assert idle.touch()
                assert start + 0.05 <= idle.when() <= loop.time() + 0.05
                await asyncio.sleep(NEVER_S)

    run(main(), debug=debug)


def test_an_idle_timeout_begins_at_its_entry(run):
    async def main():
        idle = idle_timeout(0.05)
        assert idle.when() is None
        await asyncio.sleep(0.1)
        async with idle:
            await asyncio.sleep(0)
        assert not idle.touch()
        with pytest.raises(RuntimeError):
            timeout(1).touch()

    run(main())


@pytest.mark.parametrize("wrong", [0, -1, math.inf, math.nan])
def test_an_idle_timeout_needs_a_positive_delay(wrong):
    with pytest.raises(ValueError, match="must be positive and finite"):
        idle_timeout(wrong)


@pytest.mark.parametrize("wrong", [True, "5", None])
def test_an_idle_timeout_and_a_moved_handle_need_a_number(wrong):
    with pytest.raises(TypeError, match="delay must be a number of seconds, got"):
        idle_timeout(wrong)
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        handle = runner.get_loop().call_later(NEVER_S, print)
        with pytest.raises(TypeError, match="delay must"):
            handle.reschedule(wrong)


# --- wait_for() ------------------------------------------------------------------------------------------------------


def test_wait_for_returns_results_and_raises_exceptions(run):
    async def fail():
        raise KeyError

    async def main():
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        done.set_result(5)
        assert await wait_for(done, 1) == 5
        assert await wait_for(done, 0) == 5
        assert await wait_for(asyncio.sleep(0.01, 6), 1) == 6
        assert await wait_for(asyncio.sleep(0.01, 7), None) == 7
        assert await asyncio.create_task(wait_for(asyncio.sleep(0, 8), 1)) == 8
        with pytest.raises(KeyError):
            await wait_for(fail(), 1)

    run(main())


def test_wait_for_cancels_the_awaitable_at_the_timeout(run):
    async def main():
        for delay in (0.01, 0, -1):
            task = asyncio.ensure_future(asyncio.sleep(NEVER_S))
            with pytest.raises(TimeoutError):
                await wait_for(task, delay)
            assert task.cancelled()
            with pytest.raises(TimeoutError):
                await wait_for(asyncio.sleep(NEVER_S), delay)
        with pytest.raises(TypeError):
            await wait_for(asyncio.get_running_loop().create_future(), "1")

    run(main())


def test_wait_for_needs_a_task():
    done = asyncio.Future(loop=asyncio.new_event_loop())
    done.set_result(None)
    for seconds in (1, None):
        awaited = wait_for(done, seconds)
        with pytest.raises(RuntimeError):
            awaited.send(None)
    done.get_loop().close()


def test_the_stack_of_a_task_in_wait_for(run):
    async def main():
        task = asyncio.create_task(wait_for(asyncio.sleep(NEVER_S), NEVER_S))
        await asyncio.sleep(0)
        assert task.get_stack()
        task.cancel()
        await asyncio.wait([task])

    run(main())


def test_wait_for_is_a_coroutine():
    awaited = wait_for(None, 1)
    assert asyncio.iscoroutine(awaited)
    assert inspect.isawaitable(awaited)
    awaited.close()


# --- shortcuts of the compiled class ---------------------------------------------------------------------------------


def test_reschedule_moves_the_timer_in_the_wheel():
    async def main():
        loop = asyncio.get_running_loop()
        timers = loop._wheel_timers
        start, order = loop.time(), []
        async with timeout(NEVER_S) as limit:
            pending = len(timers)
            for delay_s in (NEVER_S / 2, NEVER_S * 1_000, 20):
                limit.reschedule(start + delay_s)
                assert len(timers) == pending
                assert limit.when() == start + delay_s
            limit.reschedule(None)
            assert len(timers) == pending - 1
        with pytest.raises(TimeoutError):
            async with timeout(NEVER_S) as limit:
                when = loop.time() + 0.01
                loop.call_at(when, order.append, "added before the move")
                limit.reschedule(when)
                await asyncio.sleep(NEVER_S)
        assert order == ["added before the move"]
        assert limit.expired()

    hwheel.asyncio.run(main())


def test_a_rescheduled_timer_sees_an_override_of_call_at():
    async def main():
        loop = asyncio.get_running_loop()
        seen = []
        original = loop.call_at
        async with timeout(NEVER_S) as limit:
            loop.call_at = lambda when, *rest, **named: seen.append(when) or original(when, *rest, **named)
            limit.reschedule(loop.time() + NEVER_S)
            assert seen == [limit.when()]

    hwheel.asyncio.run(main())


@pytest.mark.parametrize("kind", [name for name in FACTORIES if name.startswith("hwheel")])
def test_a_replaced_clock_sets_the_next_deadline(kind):
    sample = FACTORIES[kind]()
    sample.close()
    base = type(sample)

    class Shifted(base):
        pass

    async def main():
        loop = asyncio.get_running_loop()
        assert timeout(10).when() < base.time(loop) + 20
        for shift_s in (1_000, 2_000):
            Shifted.time = lambda self, shift_s=shift_s: base.time(self) + shift_s
            assert 0 <= timeout(10).when() - base.time(loop) - shift_s < 20
            loop.time = lambda shift_s=shift_s: base.time(loop) - shift_s
            assert 0 <= timeout(10).when() - base.time(loop) + shift_s < 20
            del loop.time
            assert 0 <= timeout(10).when() - base.time(loop) - shift_s < 20
        del Shifted.time
        assert 0 <= timeout(10).when() - base.time(loop) < 20

    hwheel.asyncio.run(main(), loop_factory=Shifted)


def test_leaving_releases_the_timeout(run):
    async def main():
        for _ in range(2):
            limit = timeout(NEVER_S)
            gone = weakref.ref(limit)
            async with limit as entered:
                assert entered is limit
            del limit, entered
            assert gone() is None

    run(main())


def test_a_program_that_keeps_the_exception_of_an_entry_sees_its_value(run):
    async def main():
        kept, entered = [], []
        for _ in range(3):
            limit = timeout(NEVER_S)
            try:
                next(limit.__aenter__().__await__())
            except StopIteration as stop:
                kept.append(stop)
            entered.append(limit)
        assert [stop.value for stop in kept] == entered
        assert len({id(stop) for stop in kept}) == 3
        for limit in reversed(entered):
            await limit.__aexit__(None, None, None)

    run(main())


def test_leaving_with_keywords(run):
    async def main():
        limit = timeout(NEVER_S)
        await limit.__aenter__()
        await limit.__aexit__(exc_type=None, exc_val=None, exc_tb=None)
        with pytest.raises(TypeError):
            limit.__aexit__(None)

    run(main())
