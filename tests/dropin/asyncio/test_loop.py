"""Loops on the wheel, on top of asyncio's and of uvloop's: time, order, passes, errors, the loop's end."""

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
from sampling import seeded_random
from systems import CLASSES_ARE_IMMORTAL


def nothing(*args):
    pass


def run_until(loop, ran, count):
    """Runs the loop until there are so many results; a hang fails."""
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
    # What the loop's clock shows may be off by the rounding of one sum of floats.
    assert min(late) >= -1e-9


def test_seventy_milliseconds_are_no_less(loop):
    for _ in range(5):
        started = loop.time()
        loop.call_later(0.06 + 0.01, loop.stop)
        loop.run_forever()
        assert loop.time() - started >= 0.0699999


def test_order_of_deadline_then_of_insertion(loop, clock_stands):
    ran = []
    dice = seeded_random(2)
    with clock_stands(loop):
        start = loop.time() + 0.05
        deadlines = [start + dice.randrange(20) * 0.00013 for _ in range(500)]
        for i, deadline in enumerate(deadlines):
            loop.call_at(deadline, ran.append, i)
    run_until(loop, ran, len(deadlines))
    assert ran == sorted(range(len(deadlines)), key=deadlines.__getitem__)


def test_more_than_one_pass_may_run_keeps_order(loop, clock_stands):
    ran = []
    dice = seeded_random(3)
    with clock_stands(loop):
        start = loop.time() + 0.05
        deadlines = [start + dice.random() * 0.01 for _ in range(3000)]
        for i, deadline in enumerate(deadlines):
            loop.call_at(deadline, ran.append, i)
    run_until(loop, ran, len(deadlines))
    assert ran == sorted(range(len(deadlines)), key=deadlines.__getitem__)


@pytest.mark.parametrize("delay", [0, -1, -0.0, -1e9, -math.inf])
def test_what_is_due_runs_in_the_next_pass(loop, delay):
    ran = []

    def first():
        loop.call_later(delay, ran.append, "added while a pass runs")
        ran.append("first")
        loop.call_soon(loop.stop)

    loop.call_soon(first)
    loop.run_forever()
    run_until(loop, ran, 2)
    assert ran == ["first", "added while a pass runs"]


def test_what_a_timer_adds_waits_for_the_next_pass(loop, clock_stands):
    ran = []

    def first():
        loop.call_later(0, ran.append, "timer added")
        loop.call_soon(ran.append, "added")
        ran.append("first")

    with clock_stands(loop):
        start = loop.time() + 0.005
        loop.call_at(start, first)
        loop.call_at(start, ran.append, "second")
    run_until(loop, ran, 4)
    assert ran[:2] == ["first", "second"]
    assert sorted(ran[2:]) == ["added", "timer added"]


def test_a_callback_may_cancel_what_is_due_with_it(loop, clock_stands):
    ran = []

    def first():
        ran.append("first")
        second.cancel()

    with clock_stands(loop):
        start = loop.time() + 0.005
        loop.call_at(start, first)
        second = loop.call_at(start, ran.append, "second")
        loop.call_at(start, ran.append, "third")
    run_until(loop, ran, 2)
    assert ran == ["first", "third"]


def test_a_callback_may_cancel_itself(loop):
    ran = []

    def first(*args):
        handle.cancel()
        ran.append(handle.cancelled())

    handle = loop.call_later(0.001, first, object())
    run_until(loop, ran, 1)
    assert ran == [True]


def test_stop_lets_the_pass_end(loop, clock_stands):
    ran = []
    with clock_stands(loop):
        start = loop.time() + 0.005
        loop.call_at(start, loop.stop)
        loop.call_at(start, ran.append, "same pass")
    loop.run_forever()
    assert ran == ["same pass"]


@pytest.mark.parametrize("delay", [math.inf, 1e18, 100 * 365 * 86400])
def test_far_deadlines_are_welcome(loop, delay):
    handle = loop.call_later(delay, nothing)
    ran = []
    loop.call_later(0.001, ran.append, 1)
    run_until(loop, ran, 1)
    handle.cancel()


# --- bad input and misuse -----------------------------------------------------------------------------------------


def test_no_delay_is_a_type_error(loop):
    with pytest.raises(TypeError):
        loop.call_later(None, nothing)
    with pytest.raises(TypeError):
        loop.call_at(None, nothing)
    with pytest.raises(TypeError):
        loop.call_later("soon", nothing)
    with pytest.raises(TypeError):
        loop.call_at("soon", nothing)
    assert len(loop._wheel_timers) == 0


def test_no_delay_is_a_type_error_also_where_call_at_was_replaced(loop_class):
    loop = loop_class()
    loop.call_at = pytest.fail
    with pytest.raises(TypeError, match="delay must not be None"):
        loop.call_later(None, nothing)
    loop.close()


def test_a_closed_loop_refuses(loop_class):
    loop = loop_class()
    handle = loop.call_later(10, nothing)
    loop.close()
    loop.close()
    for call in (loop.call_later, loop.call_at):
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            call(10, nothing)
    handle.cancel()
    assert handle.cancelled()


def test_a_running_loop_cannot_be_closed_and_loses_no_timer(loop):
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


def test_only_loop_classes_are_made_into_loop_classes():
    for wrong in (asyncio.new_event_loop, 1, None, int):
        with pytest.raises(TypeError):
            wheel_loop(wrong)
    assert wheel_loop(EventLoop) is EventLoop
    assert wheel_loop(asyncio.SelectorEventLoop) is EventLoop


@pytest.mark.skipif(CLASSES_ARE_IMMORTAL, reason="CPython 3.13 without a GIL keeps every class for ever")
def test_a_class_that_nobody_uses_any_more_is_gone():
    class Own(asyncio.SelectorEventLoop):
        pass

    made = wheel_loop(Own)
    assert wheel_loop(Own) is made
    gone = weakref.ref(Own), weakref.ref(made)
    del Own, made
    gc.collect()
    assert [each() for each in gone] == [None, None]


def test_a_subclass_may_have_a_say(loop_class):
    class Own(loop_class):
        def call_at(self, when, callback, *args, context=None):
            asked.append(when)
            return super().call_at(when, callback, *args, context=context)

    asked, ran = [], []
    loop = Own()
    handle = loop.call_later(
        0.1, ran.append, 1
    )  # long enough: a loop of uvloop has another handle for what is due at once
    assert asked == [handle.when()]
    run_until(loop, ran, 1)
    loop.close()


def test_what_was_put_in_the_place_of_call_at_gets_the_context_too(loop_class):
    class Own(loop_class):
        pass

    loop, seen = Own(), []
    Own.call_at = lambda self, when, callback, *args, context=None: seen.append(context)
    context = contextvars.copy_context()
    loop.call_at(loop.time() + 1, nothing, context=context)
    assert seen == [context]
    loop.close()


def test_an_alarm_that_does_not_count_any_more_rings_in_vain(loop):
    handle = loop.call_later(1e6, nothing)
    loop._wheel_timers._on_wakeup(-1)
    assert len(loop._wheel_timers) == 1 and not handle.cancelled()
    handle.cancel()


def test_a_context_is_whatever_runs_callbacks():
    class Runs:
        def run(self, callback, *args):
            ran.append("in it")
            callback(*args)

    loop, ran = EventLoop(), []
    loop.call_later(0.001, ran.append, 1, context=Runs())
    run_until(loop, ran, 2)
    assert ran == ["in it", 1]
    loop.close()


def test_a_call_at_that_asks_itself_once_more_is_not_sent_around():
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
@pytest.mark.parametrize("count", [1, 100, 1000])  # for less and for more than one pass
def test_an_exit_leaves_the_loop_and_loses_no_timer(clock_stands, exit_with, count):
    def leave():
        raise exit_with

    loop = EventLoop()
    ran = []
    with clock_stands(loop):
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


def test_an_exit_loses_nothing_of_what_was_late_when_it_was_added():
    """That is the base loop's, and may run before or after what is the wheel's, which stays in order."""

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


def test_sleep_timeout_and_wait_for_know_nothing_of_it(loop_class):
    assert hwheel.asyncio.run(timeouts_of_all_kinds(), loop_factory=loop_class) == EXPECTED


def test_run_uses_the_wheel():
    async def kind():
        return type(asyncio.get_running_loop())

    assert hwheel.asyncio.run(kind()) is EventLoop
    with pytest.raises(ValueError if sys.version_info < (3, 14) else TypeError):  # as asyncio.run()
        hwheel.asyncio.run("no coroutine")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_install_makes_every_new_loop_one_on_the_wheel():
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


# --- one underlying timer a bucket ----------------------------------------------------------------------------------


class CountingLoop(asyncio.SelectorEventLoop):
    asked = 0

    def call_at(self, when, callback, *args, context=None):
        self.asked += 1
        return super().call_at(when, callback, *args, context=context)


def test_the_loop_itself_is_asked_for_few_timers(clock_stands):
    loop = wheel_loop(CountingLoop)()
    handles = [loop.call_later(30 + i / 10_000, nothing) for i in range(10_000)]
    for handle in handles:
        handle.cancel()
    for _ in range(10_000):
        loop.call_later(30, nothing).cancel()
    assert loop.asked == 1
    ran = []
    with clock_stands(loop):
        when = loop.time() + 0.05
        for i in range(1000):
            loop.call_at(when, ran.append, i)
    run_until(loop, ran, 1000)
    # One for the bucket, and one for each pass beyond the first: 64 run at a time.
    assert loop.asked <= 1 + 1 + 1000 // 64 + 1
    loop.close()


# --- threads and processes ------------------------------------------------------------------------------------------


def test_misuse_from_other_threads_breaks_nothing():
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_can_run_a_loop_of_its_own():
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


def test_two_who_ask_for_a_class_at_once_get_the_same():
    threads, found = [], []

    class Kind(type):
        def __subclasses__(cls):
            made = super().__subclasses__()
            if not threads:
                threads.append(threading.Thread(target=lambda: found.append(wheel_loop(Base))))
                threads[0].start()
                threads[0].join(0.1)  # as long as it takes where nothing keeps it from it
            return made

    class Base(asyncio.SelectorEventLoop, metaclass=Kind):
        pass

    made = wheel_loop(Base)
    threads[0].join()
    assert found == [made] and wheel_loop(Base) is made
