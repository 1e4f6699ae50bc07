"""hwheel.asyncio.call_every: coroutines again and again, on any loop."""

import asyncio
import contextvars
import random
import selectors

import pytest

from event_loops import FACTORIES
from hwheel.asyncio import EventLoop, call_every


@pytest.fixture(params=list(FACTORIES))
def run(request):
    def run(coroutine):
        with asyncio.Runner(loop_factory=FACTORIES[request.param]) as runner:
            return runner.run(asyncio.wait_for(coroutine, 60))

    return run


class Virtual(selectors.SelectSelector):
    """Where a loop would wait, its time goes on instead."""

    now = 0.0

    def select(self, timeout=None):
        assert timeout is not None, "nothing is left to wait for"
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(EventLoop):
    def __init__(self):
        self._clock = Virtual()
        super().__init__(self._clock)

    def time(self):
        return self._clock.now


@pytest.fixture
def virtually():
    """Runs a coroutine in virtual time. Returns its result, and all that went to the exception handler."""

    def run(coroutine):
        reported = []
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.get_loop().set_exception_handler(lambda loop, context: reported.append(context))
            return runner.run(coroutine), reported

    return run


def ms():
    return round(asyncio.get_running_loop().time() * 1000)


def beats(*lasts, **options):
    """The ms in which runs begin that last so long, over a second, every 100 ms."""

    async def main():
        seen = []

        async def beat():
            seen.append(ms())
            await asyncio.sleep(lasts[min(len(seen), len(lasts)) - 1] if lasts else 0)

        async with call_every(0.1, beat, **options) as every:
            await asyncio.sleep(1.04)
        return seen, every.missed

    return main()


@pytest.mark.parametrize("interval", [0.01, 0.0104])
def test_each_interval_it_runs_once_on_every_loop_and_never_early(run, interval):
    async def main():
        loop = asyncio.get_running_loop()
        start, seen = loop.time(), []

        async def beat(*args):
            seen.append((loop.time() - start, args))
            await asyncio.sleep(0)

        every = call_every(interval, beat, 1, "two")
        while len(seen) < 5:
            await asyncio.sleep(0.005)
        assert every.cancel() and not every.cancel()
        await every
        count = len(seen)
        await asyncio.sleep(0.03)
        assert len(seen) == count
        return seen

    seen = run(main())
    assert all(at >= interval * (number + 1) - 1e-6 for number, (at, _) in enumerate(seen))
    assert {args for _, args in seen} == {(1, "two")}


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("skip", [100, 500, 600, 700, 800, 900, 1000]),
        ("burst", [100, 450, 450, 450, 500, 600, 700, 800, 900, 1000]),
        ("delay", [100, 550, 650, 750, 850, 950]),
    ],
)
def test_what_a_long_run_misses(virtually, missed, expected):
    (seen, left_out), reported = virtually(beats(0.35, 0, missed_ticks=missed))
    assert (seen, left_out, reported) == (expected, 0, [])


def test_a_time_that_comes_later_by_its_jitter_is_not_missed(virtually):
    class Draws:
        def random(self):
            return 1.0

    # Each run goes on over the next time of the grid, but not up to when that is to come.
    (seen, _), _ = virtually(beats(0.075, jitter=0.04, random=Draws()))
    assert seen == [140, 240, 340, 440, 540, 640, 740, 840, 940]


@pytest.mark.parametrize("exit_", [SystemExit, KeyboardInterrupt])
def test_an_exit_in_a_run_is_the_loops_to_raise_and_no_error_to_report(exit_):
    reported = []

    async def leave():
        raise exit_

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        call_every(0.1, leave)
        await asyncio.sleep(1)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.raises(exit_):
        runner.run(main())
    assert reported == []


def test_times_do_not_drift(virtually):
    async def main():
        seen = []
        async with call_every(1 / 3, lambda: seen.append(asyncio.get_running_loop().time())):
            await asyncio.sleep(1000)
        return seen

    seen, _ = virtually(main())
    assert len(seen) >= 2999
    assert all(abs(at - (number + 1) / 3) < 0.0011 for number, at in enumerate(seen))


def test_no_two_runs_at_once(run):
    async def main():
        inside, most, count = 0, 0, 0

        async def slow():
            nonlocal inside, most, count
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.007)
            inside -= 1
            count += 1

        async with call_every(0.002, slow, missed_ticks="burst"):
            while count < 5:
                await asyncio.sleep(0.005)
        return most

    assert run(main()) == 1


def test_an_exception_goes_to_the_loops_handler_and_does_not_end_it(virtually):
    async def main():
        async def fail():
            await asyncio.sleep(0.01)
            raise ZeroDivisionError

        async with call_every(0.1, fail) as every:
            await asyncio.sleep(0.35)
            assert not every.cancelled

    _, reported = virtually(main())
    assert [type(context["exception"]) for context in reported] == [ZeroDivisionError] * 3
    assert "call_every" in reported[0]["message"] and "fail" in reported[0]["message"]


def test_a_run_that_is_cancelled_by_what_it_awaits_does_not_end_it(virtually):
    async def main():
        seen = []

        async def gives_up():
            seen.append(ms())
            gone = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone

        async with call_every(0.1, gives_up):
            await asyncio.sleep(0.35)
        return seen

    assert virtually(main()) == ([100, 200, 300], [])


def test_cancel_cancels_the_run_that_is_under_way_and_await_waits_for_its_end(virtually):
    async def main():
        seen = []

        async def tidies_up():
            try:
                await asyncio.sleep(50)
            except asyncio.CancelledError:
                await asyncio.sleep(0.2)
                seen.append(ms())
                raise

        every = call_every(0.1, tidies_up)
        await asyncio.sleep(0.15)
        assert every.cancel() and every.cancelled and seen == []
        await every
        assert seen == [350]
        await every  # it is over: at once

    assert virtually(main()) == (None, [])


def test_cancelled_in_its_own_run_that_goes_on_to_its_end(virtually):
    async def main():
        seen = []

        async def once():
            assert every.cancel()
            with pytest.raises(RuntimeError, match="cannot wait for its own end"):
                await every
            await asyncio.sleep(0.05)
            seen.append(ms())

        every = call_every(0.1, once)
        await every
        await asyncio.sleep(1)
        return seen

    assert virtually(main()) == ([150], [])


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="tasks begin at once from Python 3.12 on")
def test_a_run_that_begins_before_its_task_is_returned_is_known_to_be_one(virtually):
    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        seen = []

        async def beat():
            seen.append("running" in repr(every))
            assert every.cancel()
            with pytest.raises(RuntimeError, match="cannot wait for its own end"):
                await every
            await asyncio.sleep(0.5)
            seen.append(ms())

        every = call_every(0.1, beat)
        await every
        return seen

    assert virtually(main()) == ([True, 600], [])


def test_who_waits_for_it_and_is_cancelled_ends_nothing_else(virtually):
    async def main():
        seen = []
        every = call_every(0.1, lambda: seen.append(ms()))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.25):
                await every
        await asyncio.sleep(0.1)
        every.cancel()
        await every
        return seen

    assert virtually(main()) == ([100, 200, 300], [])


async def long(ended):
    try:
        await asyncio.sleep(100)
    finally:
        ended.append("cancelled")


async def in_the_middle_of_a_run(task):
    while task._run is None:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0)


def test_the_end_of_asyncio_run_ends_it_also_in_the_middle_of_a_run():
    ended = []

    async def main():
        global kept
        kept = call_every(0.001, long, ended), call_every(100, long, ended)
        await in_the_middle_of_a_run(kept[0])

    asyncio.run(main())
    assert ended == ["cancelled"] and kept[0].cancelled


def test_max_lateness_leaves_out_what_would_begin_later(virtually):
    # The second time comes 250 ms late, because its run before it lasts so long; the others are in time again.
    (seen, left_out), _ = virtually(beats(0.35, 0, missed_ticks="burst", max_lateness=0.2))
    assert (seen, left_out) == ([100, 450, 450, 500, 600, 700, 800, 900, 1000], 1)


def test_jitter_is_drawn_for_each_run_and_the_grid_stays(virtually):
    class Draws:
        parts = iter([0.5, 0.0, 1.0, 0.25, 0.5] + [0.0] * 10)

        def random(self):
            return next(self.parts)

    (seen, _), _ = virtually(beats(jitter=0.04, random=Draws()))
    assert seen == [120, 200, 340, 410, 520, 600, 700, 800, 900, 1000]
    times = [virtually(beats(jitter=0.04, random=random.Random(seed)))[0][0] for seed in (7, 7, 8)]
    assert times[0] == times[1] != times[2]
    (seen, _), _ = virtually(beats(jitter=0.04))
    assert all(100 * (number + 1) <= at <= 100 * (number + 1) + 40 for number, at in enumerate(seen))


def test_a_source_that_fails_is_reported_and_the_run_comes_at_its_time(virtually):
    class Fails:
        def random(self):
            raise ZeroDivisionError

    (seen, _), reported = virtually(beats(jitter=0.04, random=Fails()))
    assert seen == [100 * i for i in range(1, 11)]
    assert {type(context["exception"]) for context in reported} == {ZeroDivisionError}


def test_each_run_has_the_context_of_the_call_and_leaves_nothing_in_it(virtually):
    name = contextvars.ContextVar("name", default="nobody")

    async def main():
        seen = []

        async def look_and_set():
            seen.append(name.get())
            name.set("left behind")

        name.set("the caller's")
        brought = contextvars.Context()
        brought.run(name.set, "brought")
        async with call_every(0.1, look_and_set), call_every(0.11, look_and_set, context=brought):
            await asyncio.sleep(0.35)
        return seen

    assert virtually(main())[0] == ["the caller's", "brought"] * 3


def test_a_plain_function_and_what_else_returns_an_awaitable(virtually):
    async def main():
        seen = []
        later = asyncio.get_running_loop().create_future()
        async with call_every(0.1, seen.append, 1), call_every(0.1, lambda: later):
            await asyncio.sleep(0.25)
            later.set_result(None)
        return seen

    assert virtually(main()) == ([1, 1], [])


@pytest.mark.parametrize(
    ("argument", "value", "error"),
    [
        ("interval", 0, ValueError),
        ("interval", -1, ValueError),
        ("interval", 1e-12, ValueError),  # less than the clock can tell: nothing would come of the grid
        ("interval", float("nan"), ValueError),
        ("interval", float("inf"), ValueError),
        ("interval", "1", TypeError),
        ("interval", True, TypeError),
        ("function", 5, TypeError),
        ("missed_ticks", "SKIP", ValueError),
        ("missed_ticks", None, ValueError),
        ("jitter", -1, ValueError),
        ("jitter", float("inf"), ValueError),
        ("jitter", None, TypeError),
        ("random", 5, TypeError),
        ("max_lateness", 0, ValueError),
        ("max_lateness", -1, ValueError),
        ("max_lateness", 1e-12, ValueError),
        ("max_lateness", float("nan"), ValueError),
        ("context", 5, TypeError),
    ],
)
def test_a_bad_argument_is_named_by_the_error(argument, value, error):
    async def main():
        arguments = {"interval": 1, "function": print, argument: value}
        with pytest.raises(error, match=argument):
            call_every(arguments.pop("interval"), arguments.pop("function"), **arguments)

    asyncio.run(main())


def test_it_needs_a_loop_that_runs():
    with pytest.raises(RuntimeError, match="no running event loop"):
        call_every(1, print)


def test_a_source_that_draws_what_is_no_part_of_one_is_reported_too(virtually):
    class Draws:
        def random(self):
            return 1.5

    (seen, _), reported = virtually(beats(jitter=0.04, random=Draws()))
    assert seen == [100 * i for i in range(1, 11)]
    assert "a float from 0 to 1, got 1.5" in str(reported[0]["exception"])


def test_it_can_be_cancelled_where_no_loop_runs_in_the_middle_of_a_run():
    ended = []

    async def main():
        task = call_every(0.001, long, ended)
        await in_the_middle_of_a_run(task)
        return task

    with asyncio.Runner() as runner:
        task = runner.run(main())
        task.cancel()
        runner.run(asyncio.sleep(0.001))
        assert ended == ["cancelled"] and task.cancelled


def test_in_debug_mode_its_handles_say_where_it_was_called():
    async def main():
        task = call_every(100, int)
        traced = task._handle._source_traceback[-1].filename
        task.cancel()
        return traced

    with asyncio.Runner(debug=True, loop_factory=EventLoop) as runner:
        assert runner.run(main()) == __file__
