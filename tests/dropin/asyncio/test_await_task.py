"""`await task` in a coroutine returns or raises the result of a callback that ran in any thread."""

import asyncio
import gc
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

from event_loops import FACTORIES
from hwheel import ManualTimer, SystemTimer, TimerMissed, TimerTask, TimingWheel
from hwheel.asyncio import EventLoop

PATIENCE_S = 60


def on_loop(coroutine, factory=EventLoop):
    """Run a coroutine. Return its result and the reports to the loop's exception handler."""
    reported = []
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.get_loop().set_exception_handler(lambda loop, context: reported.append(context))
        return runner.run(asyncio.wait_for(coroutine, PATIENCE_S)), reported


@pytest.fixture(params=["own thread", "inline", "pool"])
def timer(request, make_timer):
    reported = []
    with ThreadPoolExecutor(2) as pool:
        executor = {"own thread": None, "inline": "inline", "pool": pool}[request.param]
        timer = make_timer(executor=executor, on_error=lambda *error: reported.append(error))
        timer.reported = reported
        yield timer
        timer.close()
        reported.clear()


class Own(TimerTask):
    def __init__(self, delay_ms, error=None):
        super().__init__(delay_ms)
        self.error = error

    def run(self):
        if self.error is not None:
            raise self.error
        return threading.current_thread()


def fail():
    raise ZeroDivisionError


async def until_awaited(task):
    """Return a future for a coroutine that already awaits the task."""
    waiting = asyncio.ensure_future(task)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return waiting


@pytest.mark.parametrize("factory", FACTORIES.values(), ids=[*FACTORIES])
def test_await_returns_the_callbacks_result(timer, factory):
    async def main():
        assert await timer.call_later(0.02, threading.current_thread) is not threading.current_thread()
        assert await timer.call_later(0.02, max, 1, 2, slack=0.01, max_lateness=100) == 2
        assert await timer.add(TimerTask(20, dict, one=1)) == {"one": 1}
        assert await timer.add(TimerTask(20)) is None
        assert await timer.add(Own(20)) is not threading.current_thread()
        return await asyncio.gather(*[timer.call_later(0.02 + i / 1000, int, i) for i in range(20)])

    assert on_loop(main(), factory) == ([*range(20)], [])
    assert timer.reported == []


def test_await_raises_the_callbacks_exception_without_reporting_it(timer):
    async def main():
        for add in (
            lambda: timer.call_later(0.02, fail),
            lambda: timer.add(Own(20, ZeroDivisionError())),
            lambda: timer.call_every(0.02, fail),
            lambda: timer.call_later(0.02, fail, max_lateness=100),
        ):
            task = add()
            with pytest.raises(ZeroDivisionError):
                await task
            task.cancel()
        task = timer.call_later(0.02, next, iter(()))
        with pytest.raises(RuntimeError, match="StopIteration"):
            await task

    assert on_loop(main()) == (None, [])
    # A periodic task may have run once without a waiter.
    assert all(isinstance(source, type(timer.call_every(1000, int))) for source, _ in timer.reported)


def test_await_of_a_periodic_task_returns_the_next_run(timer):
    async def main():
        numbers = iter(range(1000))
        task = timer.call_every(0.01, next, numbers)
        seen = [await task for _ in range(3)]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return seen

    seen, _ = on_loop(main())
    assert seen == sorted({*seen})


def test_cancel_in_any_thread_ends_the_wait():
    async def main():
        timer = ManualTimer()
        argument = {"an object"}
        for cancel in (
            lambda task: task.cancel(),
            lambda task: threading.Timer(0.05, task.cancel).start(),  # the loop sleeps already
            lambda task: timer.close(),
        ):
            task = timer.call_later(5, len, argument)
            waiting = await until_awaited(task)
            assert task.callback is len and task.args == (argument,) and "len" in repr(task)
            cancel(task)
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert task.cancelled
            with pytest.raises(asyncio.CancelledError):
                await task  # raises at once
        del waiting
        return sys.getrefcount(argument)

    # close() returned the last task, which keeps its argument.
    assert on_loop(main())[0] <= 5


def test_task_returned_by_close_has_its_callback_and_runs():
    async def main():
        timer = ManualTimer()
        ran = []
        waiting = [await until_awaited(timer.call_later(1, ran.append, 1)), await until_awaited(timer.add(Own(20)))]
        plain, own = timer.close()[::-1]
        assert plain.callback == ran.append and own.callback is None
        plain.run()
        for one in waiting:
            with pytest.raises(asyncio.CancelledError):
                await one
        return ran

    assert on_loop(main()) == ([1], [])


def test_deleted_timer_ends_the_wait():
    async def main():
        timer = ManualTimer()
        waiting = await until_awaited(timer.call_later(5, int))
        del timer
        gc.collect()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    on_loop(main())


def test_several_waiters_get_the_result_and_one_may_give_up():
    async def main():
        timer = ManualTimer()
        task = timer.call_later(5, int, "7")
        waiting = [await until_awaited(task) for _ in range(3)]
        waiting[1].cancel()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(task, 0.01)
        timer.advance(5)
        assert (await waiting[0], await waiting[2]) == (7, 7)

    on_loop(main())


def test_exception_is_reported_after_all_waiters_gave_up():
    async def main():
        reported = []
        timer = ManualTimer(on_error=lambda *error: reported.append(error))
        task = timer.call_later(5, fail)
        waiting = await until_awaited(task)
        waiting.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        timer.advance(5)
        return [(source is task, type(error)) for source, error in reported]

    assert on_loop(main()) == ([(True, ZeroDivisionError)], [])


def test_waiter_cancelled_after_the_exception_leaves_it_to_the_loop():
    async def main():
        timer = ManualTimer()
        waiting = await until_awaited(timer.call_later(5, fail))
        timer.advance(5)  # the exception is on its way to the loop
        waiting.cancel()
        await asyncio.wait([waiting])
        await asyncio.sleep(0)

    _, reported = on_loop(main())
    assert [type(context["exception"]) for context in reported] == [ZeroDivisionError]


def test_await_of_a_missed_task_raises_timer_missed(make_timer, hand_clock):
    async def main():
        for call in (timer.call_later, timer.call_every):
            task = call(1, int, max_lateness=1)
            waiting = await until_awaited(task)
            hand_clock.ms += 5000
            timer.call_later(0, int)
            with pytest.raises(TimerMissed, match="max_lateness"):
                await waiting
            assert task.missed
            task.cancel()

    missed = []
    timer = make_timer(clock=hand_clock, on_missed=lambda task: missed.append(task.callback))
    on_loop(main())
    assert missed == [int, int]


def test_timer_missed_is_raised_after_on_missed_returns_or_raises(make_timer, hand_clock):
    async def main():
        task = timer.call_later(1, int, max_lateness=1)
        waiting = await until_awaited(task)
        hand_clock.ms += 5000
        timer.call_later(0, int)
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        going_on.set()
        with pytest.raises(TimerMissed):
            await waiting

    def on_missed(task):
        begun.set()
        going_on.wait(PATIENCE_S)
        raise ZeroDivisionError

    begun, going_on = threading.Event(), threading.Event()
    timer = make_timer(clock=hand_clock, on_missed=on_missed, on_error=lambda task, error: None)
    on_loop(main())


def test_await_of_a_started_task_or_without_a_loop_raises():
    async def main():
        timer = ManualTimer()
        tasks = [timer.call_later(0, int), timer.add(Own(0)), timer.call_later(0, int, slack=1, max_lateness=5)]
        timer.advance(0)
        for task in tasks:
            with pytest.raises(RuntimeError, match="has already begun"):
                await task

    on_loop(main())
    with pytest.raises(RuntimeError, match="no running event loop"):
        next(iter(ManualTimer().call_later(1, int).__await__()))


def test_task_can_be_awaited_before_its_add_and_in_a_timing_wheel():
    async def main():
        task = TimerTask(5, int, "5")
        waiting = await until_awaited(task)
        timer = ManualTimer()
        timer.add(task)
        timer.advance(1)
        wheel, polled = TimingWheel(), TimerTask(5, int, "6")
        wheel.add(polled, 5)
        last = await until_awaited(polled)
        wheel.poll(5)[0].run()
        return await waiting, await last

    assert on_loop(main())[0] == (5, 6)


def test_subclass_can_be_awaited_after_each_add():
    async def main():
        timer, task, seen = ManualTimer(), Own(5), []
        for _ in range(3):
            timer.add(task)
            waiting = await until_awaited(task)
            timer.advance(1)
            seen.append(await waiting)
        return seen == [threading.current_thread()] * 3

    assert on_loop(main())[0]


def test_exception_for_a_closed_loop_is_reported():
    reported = []
    timer = ManualTimer(on_error=lambda *error: reported.append(error))
    loop = EventLoop()
    task = timer.call_later(5, fail)
    waiting = loop.create_task(until_awaited(task))
    loop.run_until_complete(waiting)
    kept = waiting.result()
    loop.close()
    timer.advance(5)
    assert [type(error) for _, error in reported] == [ZeroDivisionError]
    kept._log_destroy_pending = False


def test_await_returns_results_of_another_process():
    async def main():
        reported = []
        with (
            ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
            SystemTimer(executor=pool, on_error=lambda *error: reported.append(error)) as timer,
        ):
            assert await timer.call_later(0.05, int, "7") == 7
            with pytest.raises(ValueError, match="invalid literal"):
                await timer.call_later(0.05, int, "seven")
            assert await timer.call_later(0.05, int) == 0
            timer.call_later(0.01, threading.Lock)  # its result cannot be pickled, and has no waiter
            every = timer.call_every(0.05, int, "8")
            assert await every == 8
            assert await every == 8
            every.cancel()
        return reported

    assert on_loop(main()) == ([], [])


def test_concurrent_cancels_end_each_wait_once(timer, many_switches):
    async def main():
        outcomes = {"ran": 0, "cancelled": 0}
        tasks = [timer.call_later(0.5 + i % 50 / 1000, int, i) for i in range(500)]

        async def wait_for(number, task):
            try:
                assert await task == number
                outcomes["ran"] += 1
            except asyncio.CancelledError:
                assert task.cancelled
                outcomes["cancelled"] += 1

        def cancel_some():
            for task in tasks[::3]:
                task.cancel()

        waits = [asyncio.ensure_future(wait_for(i, task)) for i, task in enumerate(tasks)]
        await asyncio.sleep(0)
        threads = [threading.Thread(target=cancel_some) for _ in range(2)]
        for thread in threads:
            thread.start()
        await asyncio.gather(*waits)
        for thread in threads:
            thread.join()
        return outcomes, sum(task.cancelled for task in tasks)

    (outcomes, cancelled), _ = on_loop(main())
    assert outcomes == {"ran": 500 - cancelled, "cancelled": cancelled}


class NoLoop:
    """The part of a loop that an awaited task uses, without a thread."""

    told = None

    def create_future(self):
        return self

    def done(self):
        return False

    def __await__(self):
        yield self

    def call_soon_threadsafe(self, settle, future, result, error, cancelled):
        self.told = "cancelled" if cancelled else result


def test_run_and_await_that_start_concurrently(many_switches):
    """The waiter gets the result, or an error because the task has begun already, also without a GIL."""
    rounds = 3000
    timer = ManualTimer()
    ended = [0]
    errors = []
    turn = threading.Barrier(2)

    def advance():
        for number in range(rounds):
            turn.wait()
            for _ in range(number % 40):
                pass
            try:
                timer.advance(0.001)
            except BaseException as error:
                errors.append(error)
            ended[0] = number + 1

    thread = threading.Thread(target=advance)
    thread.start()
    answers = set()
    for number in range(rounds):
        task = timer.call_later(0.001, str, "ran")
        loop = NoLoop()
        asyncio._set_running_loop(loop)
        try:
            waits = task.__await__()
            turn.wait()
            for _ in range(number // 40 % 40):
                pass
            next(waits)
            while loop.told is None and ended[0] <= number:
                pass
            waits.close()
            while ended[0] <= number:
                pass
            answers.add(loop.told)
        except RuntimeError as error:
            assert "has already begun" in str(error)
        except ValueError as error:
            errors.append(error)
        finally:
            asyncio._set_running_loop(None)
    thread.join()
    assert not errors and answers <= {"ran"}
