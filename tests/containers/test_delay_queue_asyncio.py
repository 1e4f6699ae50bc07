"""hwheel.asyncio.DelayQueue, with coroutines of one or several loops."""

import asyncio
import queue
import threading
import time

import pytest

import hwheel
import hwheel.asyncio
from hwheel import ManualTimer, TimerClosed
from hwheel.asyncio import DelayQueue, QueueShutDown
from waiting import eventually


def run(coroutine):
    """Run a coroutine to its end. The loop must not report an error."""
    reported = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        return await asyncio.wait_for(coroutine, 60)

    result = asyncio.run(main())
    assert reported == []
    return result


async def settled(*tasks):
    """Run the loop until each task waits or is done; return which tasks are done."""
    for _ in range(20):
        await asyncio.sleep(0)
    return [task.done() for task in tasks]


async def turns():
    """Let the loop run callbacks that were scheduled with call_soon_threadsafe()."""
    for _ in range(3):
        await asyncio.sleep(0.001)


def test_items_arrive_in_order_and_not_early():
    async def main():
        q = DelayQueue()
        begin = time.monotonic()
        for item, delay in [("c", 0.05), ("a", 0.01), ("b", 0.03), ("a2", 0.01)]:
            await q.put(item, delay)
        got = [(await q.get(), time.monotonic() - begin) for _ in range(4)]
        assert [item for item, _ in got] == ["a", "a2", "b", "c"]
        assert all(seconds >= delay for (_, seconds), delay in zip(got, [0.01, 0.01, 0.03, 0.05], strict=True))

    run(main())


def test_async_for_ends_when_the_queue_is_shut_down_and_empty(timer):
    async def main():
        q = DelayQueue(timer=timer)
        for i in range(5):
            await q.put(i, i)
        seen = []

        async def consume():
            async for item in q:
                seen.append(item)

        task = asyncio.create_task(consume())
        await settled()
        assert seen == [0]
        timer.advance(2)
        await turns()
        assert seen == [0, 1, 2]
        q.shutdown()
        await settled()
        assert not task.done()
        timer.advance(10)
        await task
        assert seen == [0, 1, 2, 3, 4]
        with pytest.raises(QueueShutDown):
            await q.get()
        with pytest.raises(QueueShutDown):
            await q.put(1, 1)

    run(main())


@pytest.mark.parametrize("how", ["put now", "put soon", "reset", "remove"])
def test_waiting_get_is_woken_by_a_change(timer, how):
    async def main():
        q = DelayQueue(timer=timer)
        key = await q.put("far", 3600)
        task = asyncio.create_task(q.get())
        assert await settled(task) == [False] and len(timer) == 1
        if how == "put now":
            q.put_nowait("a", 0)
        elif how == "put soon":
            q.put_nowait("a", 1)
            timer.advance(1)
        elif how == "reset":
            q.reset(key, 0)
        else:
            q.shutdown()
            assert q.remove(key) == "far"
            with pytest.raises(QueueShutDown):
                await task
            return
        assert await task == ("far" if how == "reset" else "a")

    run(main())


def test_waiters_are_served_in_order(timer):
    async def main():
        q = DelayQueue(timer=timer)
        tasks = [asyncio.create_task(q.get()) for _ in range(5)]
        await settled()
        for i in range(5):
            await q.put(i, 1 + i % 2)
        timer.advance(1)
        await turns()
        assert [task.done() for task in tasks] == [True, True, True, False, False]
        timer.advance(1)
        assert await asyncio.gather(*tasks) == [0, 2, 4, 1, 3]

    run(main())


def test_full_queue_is_awaited_or_raises_errors_of_asyncio(timer):
    async def main():
        q = DelayQueue(1, timer=timer)
        key = await q.put("a", 5)
        with pytest.raises(asyncio.QueueFull):
            q.put_nowait("b", 0)
        with pytest.raises(asyncio.QueueEmpty):
            q.get_nowait()
        task = asyncio.create_task(q.put("b", 0))
        assert await settled(task) == [False]
        q.remove(key)
        assert (await task).item == "b" and await q.get() == "b"

    run(main())


def test_cancelled_get_passes_its_wake_up_on(timer):
    async def main():
        q = DelayQueue(timer=timer)
        first, second = asyncio.create_task(q.get()), asyncio.create_task(q.get())
        await settled()
        first.cancel()
        await settled()
        q.put_nowait("a", 0)
        assert await second == "a"
        third, fourth = asyncio.create_task(q.get()), asyncio.create_task(q.get())
        await settled()
        q.put_nowait("b", 0)  # wakes the third task, which is cancelled before it runs
        third.cancel()
        assert await fourth == "b"
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(q.get(), 0.01)
        assert len(q) == 0

    run(main())


def test_cancelled_put_adds_nothing(timer):
    async def main():
        q = DelayQueue(1, timer=timer)
        await q.put("a", 0)
        first, second = asyncio.create_task(q.put("b", 0)), asyncio.create_task(q.put("c", 0))
        await settled()
        q.get_nowait()  # wakes the first task
        first.cancel()
        await second
        assert q.drain() == ["c"]

    run(main())


@pytest.mark.parametrize("runner", [asyncio.run, hwheel.asyncio.run])
def test_threads_put_and_coroutines_of_two_loops_get(runner):
    q = DelayQueue()
    got = [[], []]

    def consume(mine):
        async def main():
            async for item in q:
                mine.append(item)

        runner(main())

    threads = [threading.Thread(target=consume, args=(mine,), daemon=True) for mine in got]
    for thread in threads:
        thread.start()
    for i in range(500):
        q.put_nowait(i, i % 20 / 1000)
        if i % 100 == 0:
            time.sleep(0.002)
    eventually(lambda: len(q) == 0)
    q.shutdown()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(got[0] + got[1]) == [*range(500)]


def test_waiter_of_a_closed_loop_takes_no_wake_up(timer):
    q = DelayQueue(timer=timer)
    loop = asyncio.new_event_loop()
    waits = loop.create_task(q.get())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()

    async def main():
        task = asyncio.create_task(q.get())
        await settled()
        q.put_nowait("a", 0)
        assert await task == "a"

    run(main())
    waits._log_destroy_pending = False


@pytest.mark.parametrize("for_room", [False, True])
def test_waiter_of_a_stopped_loop_does_not_delay_other_waiters(timer, for_room):
    """The other loop is not closed: it may run again, and its coroutine then takes its turn."""
    q = DelayQueue(1, timer=timer)
    if for_room:
        q.put_nowait("first")
    use = (lambda item: q.put(item)) if for_room else (lambda item: q.get())
    still = asyncio.new_event_loop()
    stands = still.create_task(use("late"))
    still.run_until_complete(asyncio.sleep(0))

    async def main():
        task = asyncio.create_task(use("b"))
        await settled()
        if for_room:
            assert q.get_nowait() == "first"
        else:
            q.put_nowait("a")
        await asyncio.wait_for(task, 30)

    run(main())
    if for_room:
        assert q.get_nowait() == "b"
    else:
        q.put_nowait("late")
    still.run_until_complete(asyncio.wait_for(stands, 30))
    assert q.drain() == (["late"] if for_room else [])
    still.close()


def test_consumers_of_one_loop_are_served_in_turn(timer):
    async def main():
        q, got = DelayQueue(timer=timer), [0] * 8

        async def consume(number):
            while await q.get() is not None:
                got[number] += 1

        tasks = [asyncio.create_task(consume(number)) for number in range(8)]
        await settled()
        for i in range(800):
            q.put_nowait(i)
        for _ in tasks:
            q.put_nowait(None)
        await asyncio.gather(*tasks)
        assert got == [100] * 8

    run(main())


def test_join_waits_for_task_done_of_each_item(timer):
    async def main():
        q = DelayQueue(timer=timer)
        await q.put("a")
        cancelled, task = asyncio.create_task(q.join()), asyncio.create_task(q.join())
        await settled()
        cancelled.cancel()
        assert await q.get() == "a" and await settled(task) == [False]
        q.task_done()
        await task
        await q.join()
        with q, pytest.raises(ValueError, match="more often"):
            q.task_done()
        with pytest.raises(QueueShutDown):
            await q.put("b")

    run(main())


def test_closed_timer_refuses_put_and_waiting(timer):
    async def main():
        q = DelayQueue(timer=timer)
        await q.put("a", 0)
        timer.close()
        assert await q.get() == "a"
        with pytest.raises(TimerClosed):
            await q.get()
        with pytest.raises(TimerClosed):
            await q.put("b", 0)

    run(main())


def test_methods_that_do_not_wait_need_no_loop():
    timer = ManualTimer()
    q = DelayQueue(timer=timer)
    key = q.put_nowait("a", 1)
    q.reset(key, 2)
    timer.advance(2)
    assert q.get_nowait() == "a"
    assert QueueShutDown is getattr(asyncio, "QueueShutDown", QueueShutDown)
    assert not issubclass(QueueShutDown, queue.Empty)
