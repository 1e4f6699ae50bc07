"""Loops on the wheel, over asyncio and uvloop: time, order, passes, errors, and close."""

import asyncio
import contextvars
import gc
import math
import os
import sys
import threading
import weakref

import pytest

import hwheel.asyncio
from hwheel.asyncio import EventLoop, wheel_loop
from programs import output_of
from sampling import seeded_random
from systems import CLASSES_ARE_IMMORTAL


def nothing(*args):
    pass


def test_import_does_not_load_the_policy():
    output_of("-W", "error", "-c", "import hwheel.asyncio, sys; assert 'hwheel.asyncio.policy' not in sys.modules")


def test_unknown_attribute_of_the_package():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        hwheel.asyncio.nothing  # noqa: B018


def run_until(loop, ran, count):
    """Run the loop until there are `count` results. Fail if it hangs."""
    give_up = loop.time() + 60
    while len(ran) < count:
        assert loop.time() < give_up
        loop.call_soon(loop.stop)
        loop.run_forever()


# --- time ---------------------------------------------------------------------------------------------------------


def test_nothing_runs_before_its_deadline(loop):
    late = []
    dice = seeded_random(1)
    delays = [dice.uniform(0, 0.1) for _ in range(300)] + [0.07, 0.06 + 0.01, 0.0001, 1e-9]

    def look(delay, started):
        late.append(loop.time() - started - delay)

    for delay in delays:
        loop.call_later(delay, look, delay, loop.time())
    run_until(loop, late, len(delays))
    # Allow for the rounding of one sum of floats.
    assert min(late) >= -1e-9


@pytest.mark.parametrize(
    ("count", "draw"),
    [(500, lambda dice: dice.randrange(20) * 0.00013), (3000, lambda dice: dice.random() * 0.01)],
    ids=["equal deadlines", "several passes"],
)
def test_timers_run_by_deadline_then_by_insertion(loop, stop_clock, count, draw):
    ran = []
    dice = seeded_random(count)
    with stop_clock(loop):
        start = loop.time() + 0.05
        deadlines = [start + draw(dice) for _ in range(count)]
        for i, deadline in enumerate(deadlines):
            loop.call_at(deadline, ran.append, i)
    run_until(loop, ran, count)
    assert ran == sorted(range(count), key=deadlines.__getitem__)


@pytest.mark.parametrize("delay", [0, -1, -0.0, -1e9, -math.inf])
def test_expired_timer_runs_in_the_next_pass(loop, delay):
    ran = []

    def first():
        loop.call_later(delay, ran.append, "added while a pass runs")
        ran.append("first")
        loop.call_soon(loop.stop)

    loop.call_soon(first)
    loop.run_forever()
    run_until(loop, ran, 2)
    assert ran == ["first", "added while a pass runs"]


def test_callback_cancels_a_timer_of_its_pass_and_itself_and_stops_the_loop(loop, stop_clock):
    ran = []

    def first(*args):
        own.cancel()
        second.cancel()
        loop.stop()  # at the end of the pass
        ran.append(own.cancelled())

    with stop_clock(loop):
        start = loop.time() + 0.005
        own = loop.call_at(start, first, object())
        second = loop.call_at(start, ran.append, "second")
        loop.call_at(start, ran.append, "third")
    loop.run_forever()
    assert ran == [True, "third"]


@pytest.mark.parametrize("delay", [math.inf, 1e18, 100 * 365 * 86400])
def test_distant_deadlines_are_accepted(loop, delay):
    handle = loop.call_later(delay, nothing)
    ran = []
    loop.call_later(0.001, ran.append, 1)
    run_until(loop, ran, 1)
    handle.cancel()


# --- bad input and misuse -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [None, "soon"])
def test_bad_delay_raises_type_error(loop_class, delay):
    loop = loop_class()
    for call in (loop.call_later, loop.call_at):
        with pytest.raises(TypeError):
            call(delay, nothing)
    assert len(loop._wheel_timers) == 0
    loop.call_at = pytest.fail
    with pytest.raises(TypeError, match="delay must not be None" if delay is None else None):
        loop.call_later(delay, nothing)
    loop.close()


def test_closed_loop_refuses_calls(loop_class):
    loop = loop_class()
    handle = loop.call_later(10, nothing)
    loop.close()
    loop.close()
    for call in (loop.call_later, loop.call_at):
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            call(10, nothing)
    handle.cancel()
    assert handle.cancelled()


def test_close_of_a_running_loop_raises_and_loses_no_timer(loop):
    ran = []

    def close():
        try:
            loop.close()
        except RuntimeError as error:
            ran.append(str(error))

    loop.call_later(0.001, close)
    loop.call_later(0.005, ran.append, "still there")
    run_until(loop, ran, 2)
    assert ran[0].startswith("Cannot close a running event loop")
    assert ran[1] == "still there"


def test_wheel_loop_accepts_only_loop_classes():
    for wrong in (asyncio.new_event_loop, 1, None, int):
        with pytest.raises(TypeError):
            wheel_loop(wrong)
    assert wheel_loop(EventLoop) is EventLoop
    assert wheel_loop(asyncio.SelectorEventLoop) is EventLoop


@pytest.mark.skipif(CLASSES_ARE_IMMORTAL, reason="CPython 3.13 without a GIL never frees classes")
def test_unused_class_is_freed():
    class Own(asyncio.SelectorEventLoop):
        pass

    made = wheel_loop(Own)
    assert wheel_loop(Own) is made
    gone = weakref.ref(Own), weakref.ref(made)
    del Own, made
    gc.collect()
    assert [each() for each in gone] == [None, None]


def test_subclass_overrides_call_at(loop_class):
    class Own(loop_class):
        def call_at(self, when, callback, *args, context=None):
            asked.append(when)
            return super().call_at(when, callback, *args, context=context)

    asked, ran = [], []
    loop = Own()
    # The delay keeps the timer on the wheel: uvloop has another handle for expired timers.
    handle = loop.call_later(0.1, ran.append, 1)
    assert asked == [handle.when()]
    run_until(loop, ran, 1)
    loop.close()


def test_replaced_call_at_receives_the_context(loop_class):
    class Own(loop_class):
        pass

    loop, seen = Own(), []
    Own.call_at = lambda self, when, callback, *args, context=None: seen.append(context)
    context = contextvars.copy_context()
    loop.call_at(loop.time() + 1, nothing, context=context)
    assert seen == [context]
    loop.close()


def test_outdated_wakeup_is_ignored(loop):
    handle = loop.call_later(1e6, nothing)
    loop._wheel_timers._on_wakeup(-1)
    assert len(loop._wheel_timers) == 1 and not handle.cancelled()
    handle.cancel()


def test_context_may_be_any_object_with_run():
    class Runs:
        def run(self, callback, *args):
            ran.append("in it")
            callback(*args)

    loop, ran = EventLoop(), []
    loop.call_later(0.001, ran.append, 1, context=Runs())
    run_until(loop, ran, 2)
    assert ran == ["in it", 1]
    loop.close()


def test_handle_that_is_cancelled_on_the_way_into_its_context_does_not_run():
    class Cancels:
        @property
        def run(self):
            handle.cancel()
            passed.append(True)
            return lambda callback, *args: callback(*args)

    loop, passed, ran, errors = EventLoop(), [], [], []
    loop.set_exception_handler(lambda _, context: errors.append(context))
    handle = loop.call_later(0.001, ran.append, 1, context=Cancels())
    run_until(loop, passed, 1)
    assert (ran, errors) == ([], [])
    loop.close()


def test_recursive_call_at():
    class Rounds(asyncio.SelectorEventLoop):
        rounding = False

        def call_at(self, when, callback, *args, context=None):
            if self.rounding:
                return super().call_at(when, callback, *args, context=context)
            self.rounding = True
            try:
                return self.call_at(math.ceil(when * 100) / 100, callback, *args, context=context)
            finally:
                self.rounding = False

    loop, ran = wheel_loop(Rounds)(), []
    loop.call_later(0.001, ran.append, 1)
    run_until(loop, ran, 1)
    loop.close()


# --- exits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exit_with", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("count", [1, 100, 1000])  # less and more than one pass runs
def test_exit_leaves_the_loop_and_loses_no_timer(stop_clock, exit_with, count):
    def leave():
        raise exit_with

    loop = EventLoop()
    ran = []
    with stop_clock(loop):
        start = loop.time() + 0.005
        loop.call_at(start, ran.append, "before")
        loop.call_at(start, leave)
        for i in range(count):
            loop.call_at(start, ran.append, i)
    with pytest.raises(exit_with):
        loop.run_forever()
    assert ran == ["before"]
    run_until(loop, ran, 1 + count)
    assert ran == ["before", *range(count)]
    loop.close()


def test_exit_loses_no_timer_added_after_its_deadline():
    """The base loop runs such timers before or after those of the wheel, which stay in order."""

    def leave():
        raise KeyboardInterrupt

    loop = EventLoop()
    now, ran = loop.time(), []
    loop.time = lambda: now
    start = now + 0.005
    loop.call_at(start, leave)
    for i in range(500):
        loop.call_at(start, ran.append, i)
    now += 1
    for i in range(500, 1000):
        loop.call_at(start, ran.append, i)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    assert 0 not in ran
    run_until(loop, ran, 1000)
    assert sorted(ran) == list(range(1000))
    assert [i for i in ran if i < 500] == list(range(500))
    loop.close()


# --- whole programs -----------------------------------------------------------------------------------------------


async def timeouts_of_all_kinds():
    results = []
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.005):
            await asyncio.sleep(10)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.sleep(10), 0.005)
    results.append(await asyncio.wait_for(asyncio.sleep(0.001, "in time"), 10))
    async with asyncio.timeout(math.inf) as timeout:
        timeout.reschedule(asyncio.get_running_loop().time() + 10)
        results.append(await asyncio.sleep(0.001, "slept"))
    done, pending = await asyncio.wait([asyncio.ensure_future(asyncio.sleep(10))], timeout=0.005)
    results.append((len(done), len(pending)))
    for task in pending:
        task.cancel()
    results.append(await asyncio.gather(*[asyncio.sleep(i / 10_000, i) for i in range(100)]))
    return results


EXPECTED = ["in time", "slept", (0, 1), list(range(100))]


def test_sleep_timeout_and_wait_for_work(loop_class):
    assert hwheel.asyncio.run(timeouts_of_all_kinds(), loop_factory=loop_class) == EXPECTED


def test_run_uses_the_wheel():
    async def kind():
        return type(asyncio.get_running_loop())

    assert hwheel.asyncio.run(kind()) is EventLoop
    with pytest.raises(ValueError if sys.version_info < (3, 14) else TypeError):  # like asyncio.run()
        hwheel.asyncio.run("no coroutine")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_install_puts_every_new_loop_on_the_wheel():
    policy = asyncio.get_event_loop_policy()
    hwheel.asyncio.install()
    try:
        assert isinstance(asyncio.get_event_loop_policy(), hwheel.asyncio.EventLoopPolicy)
        loop = asyncio.new_event_loop()
        assert isinstance(loop, EventLoop)
        loop.close()
        assert asyncio.run(timeouts_of_all_kinds()) == EXPECTED
    finally:
        asyncio.set_event_loop_policy(policy)


# --- timers of the base loop ----------------------------------------------------------------------------------------


class CountingLoop(asyncio.SelectorEventLoop):
    asked = 0

    def call_at(self, when, callback, *args, context=None):
        self.asked += 1
        return super().call_at(when, callback, *args, context=context)


def test_few_timers_are_requested_from_the_base_loop(stop_clock):
    loop = wheel_loop(CountingLoop)()
    handles = [loop.call_later(30 + i / 10_000, nothing) for i in range(10_000)]
    for handle in handles:
        handle.cancel()
    for _ in range(10_000):
        loop.call_later(30, nothing).cancel()
    assert loop.asked == 1
    ran = []
    with stop_clock(loop):
        when = loop.time() + 0.05
        for i in range(1000):
            loop.call_at(when, ran.append, i)
    run_until(loop, ran, 1000)
    # One for the bucket, and one for each further pass of 64 timers.
    assert loop.asked <= 1 + 1 + 1000 // 64 + 1
    loop.close()


# --- threads and processes ------------------------------------------------------------------------------------------


def test_calls_from_other_threads_do_not_corrupt_the_wheel():
    loop = EventLoop()
    ran = []

    def misuse(seed):
        dice = seeded_random(seed)
        handles = []
        for i in range(3000):
            handles.append(loop.call_later(dice.random() * 0.05, ran.append, (seed, i)))
            dice.choice(handles).cancel()
        cancelled.append(sum(handle.cancelled() for handle in handles))

    cancelled = []
    threads = [threading.Thread(target=misuse, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        loop.call_later(0.001, loop.stop)
        loop.run_forever()
    for thread in threads:
        thread.join()
    while len(loop._wheel_timers):
        loop.call_later(0.001, loop.stop)
        loop.run_forever()
    assert len(ran) == len(set(ran))
    assert len(ran) + sum(cancelled) >= 12_000
    loop.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_runs_its_own_loop():
    loop = EventLoop()
    ran = []
    loop.call_later(0.001, ran.append, "parent")
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if hwheel.asyncio.run(asyncio.sleep(0.002, "child")) == "child" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run_until(loop, ran, 1)
    loop.close()


def test_concurrent_wheel_loop_calls_return_the_same_class():
    threads, found = [], []

    class Kind(type):
        def __subclasses__(cls):
            made = super().__subclasses__()
            if not threads:
                threads.append(threading.Thread(target=lambda: found.append(wheel_loop(Base))))
                threads[0].start()
                threads[0].join(0.1)  # ends early if nothing blocks the thread
            return made

    class Base(asyncio.SelectorEventLoop, metaclass=Kind):
        pass

    made = wheel_loop(Base)
    threads[0].join()
    assert found == [made] and wheel_loop(Base) is made
