"""hwheel.asyncio.call_every(): periodic coroutines on any loop."""

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
    """A selector that advances the loop's time instead of waiting."""

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
    """Return a function that runs a coroutine in virtual time and returns its result and the reported errors."""

    def run(coroutine):
        reported = []
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.get_loop().set_exception_handler(lambda loop, context: reported.append(context))
            return runner.run(coroutine), reported

    return run


def ms():
    return round(asyncio.get_running_loop().time() * 1000)


def beats(*lasts, **options):
    """Return the start times in ms, over one second, of runs every 100 ms that last as long as given."""

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
def test_runs_once_each_interval_and_never_early(run, interval):
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
def test_missed_ticks_after_a_long_run(virtually, missed, expected):
    (seen, missed_count), reported = virtually(beats(0.35, 0, missed_ticks=missed))
    assert (seen, missed_count, reported) == (expected, 0, [])


def test_tick_delayed_by_jitter_is_not_missed(virtually):
    class Draws:
        def random(self):
            return 1.0

    # Each run ends after the next tick, but before the jitter of that tick ends.
    (seen, _), _ = virtually(beats(0.075, jitter=0.04, random=Draws()))
    assert seen == [140, 240, 340, 440, 540, 640, 740, 840, 940]


@pytest.mark.parametrize("exit_", [SystemExit, KeyboardInterrupt])
def test_exit_in_a_run_is_raised_by_the_loop_and_not_reported(exit_):
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


def test_ticks_do_not_drift(virtually):
    async def main():
        seen = []
        async with call_every(1 / 3, lambda: seen.append(asyncio.get_running_loop().time())):
            await asyncio.sleep(1000)
        return seen

    seen, _ = virtually(main())
    assert len(seen) >= 2999
    assert all(abs(at - (number + 1) / 3) < 0.0011 for number, at in enumerate(seen))


def test_exception_is_reported_and_does_not_end_the_series(virtually):
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


def test_cancelled_run_does_not_end_the_series(virtually):
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


def test_cancel_cancels_the_current_run_and_await_waits_for_it(virtually):
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
        await every  # returns at once

    assert virtually(main()) == (None, [])


def test_run_that_cancels_its_series_continues_to_its_end(virtually):
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
def test_eager_run_is_recognized_as_the_current_run(virtually):
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


def test_cancelled_waiter_does_not_end_the_series(virtually):
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


async def until_run_started(task):
    while task._run is None:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0)


def test_end_of_asyncio_run_cancels_the_current_run():
    ended = []

    async def main():
        global kept
        kept = call_every(0.001, long, ended), call_every(100, long, ended)
        await until_run_started(kept[0])

    asyncio.run(main())
    assert ended == ["cancelled"] and kept[0].cancelled


def test_max_lateness_skips_late_runs(virtually):
    # The second tick is 250 ms late, because the run before it lasts that long. Later ticks are punctual.
    (seen, missed_count), _ = virtually(beats(0.35, 0, missed_ticks="burst", max_lateness=0.2))
    assert (seen, missed_count) == ([100, 450, 450, 500, 600, 700, 800, 900, 1000], 1)


def test_jitter_is_drawn_for_each_run_and_does_not_accumulate(virtually):
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


def draw_out_of_range():
    return 1.5


def fail_to_draw():
    raise ZeroDivisionError("no random numbers")


@pytest.mark.parametrize(
    ("draw", "message"),
    [(draw_out_of_range, "a float from 0 to 1, got 1.5"), (fail_to_draw, "no random numbers")],
)
def test_bad_random_source_is_reported_and_the_run_is_punctual(virtually, draw, message):
    class Draws:
        def random(self):
            return draw()

    (seen, _), reported = virtually(beats(jitter=0.04, random=Draws()))
    assert seen == [100 * i for i in range(1, 11)]
    assert all(message in str(context["exception"]) for context in reported) and reported


def test_each_run_gets_a_copy_of_the_context(virtually):
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


def test_function_may_return_nothing_or_an_awaitable(virtually):
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
        ("interval", 1e-12, ValueError),  # below the resolution of the clock
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
def test_error_names_the_bad_argument(argument, value, error):
    async def main():
        arguments = {"interval": 1, "function": print, argument: value}
        with pytest.raises(error, match=argument):
            call_every(arguments.pop("interval"), arguments.pop("function"), **arguments)

    asyncio.run(main())


def test_call_every_needs_a_running_loop():
    with pytest.raises(RuntimeError, match="no running event loop"):
        call_every(1, print)


def test_cancel_without_a_running_loop():
    ended = []

    async def main():
        task = call_every(0.001, long, ended)
        await until_run_started(task)
        return task

    with asyncio.Runner() as runner:
        task = runner.run(main())
        task.cancel()
        runner.run(asyncio.sleep(0.001))
        assert ended == ["cancelled"] and task.cancelled


def test_handle_in_debug_mode_has_the_traceback_of_the_call():
    async def main():
        task = call_every(100, int)
        traced = task._handle._source_traceback[-1].filename
        task.cancel()
        return traced

    with asyncio.Runner(debug=True, loop_factory=EventLoop) as runner:
        assert runner.run(main()) == __file__
