"""`await purgatory.wait(keys, predicate, timeout)`, with checks in the loop's thread and in others."""

import asyncio
import gc
import threading
import weakref

import pytest

from hwheel import TimerClosed
from programs import output_of
from threads import call_in_thread


@pytest.fixture
def real_purgatory(make_purgatory):
    return make_purgatory()


async def started(task):
    """Let a new task run until it waits."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not task.done()


def test_wait_returns_a_true_result_at_once(purgatory):
    async def main():
        assert await purgatory.wait(["key"], lambda: ["something"], 5) == ["something"]
        assert purgatory.stats()[:3] == (0, 0, 1)

    asyncio.run(main())


def test_check_in_the_loop_wakes_the_waiter(purgatory):
    box = []

    async def main():
        task = asyncio.create_task(purgatory.wait(["key", "other"], lambda: box and box[0], 5))
        await started(task)
        assert purgatory.check_and_complete("key") == 0
        assert (purgatory.watched, purgatory.num_delayed) == (2, 1)
        box.append("content")
        assert purgatory.check_and_complete("other") == 1
        assert await task == "content"
        assert purgatory.num_delayed == len(purgatory.timer) == 0

    asyncio.run(main())


def test_checks_in_other_threads_wake_the_waiters(real_purgatory):
    """Two threads wake a thousand waiters of one loop."""
    count = 1000
    ready = [False] * count
    waiting = threading.Event()

    def make_ready(numbers):
        assert waiting.wait(60)
        for number in numbers:
            ready[number] = True
            real_purgatory.check_and_complete(number % 50)

    async def main():
        tasks = [
            asyncio.create_task(
                real_purgatory.wait([number % 50], lambda number=number: ready[number] and number + 1, 600)
            )
            for number in range(count)
        ]
        await started(tasks[-1])
        waiting.set()
        assert await asyncio.gather(*tasks) == [number + 1 for number in range(count)]

    threads = [threading.Thread(target=make_ready, args=(range(start, count, 2),)) for start in (0, 1)]
    for thread in threads:
        thread.start()
    asyncio.run(main())
    for thread in threads:
        thread.join()
    assert real_purgatory.stats()[1:4] == (0, count, 0)


def test_timeout_raises_timeout_error(real_purgatory):
    async def main():
        loop = asyncio.get_running_loop()
        start = loop.time()
        with pytest.raises(TimeoutError, match=r"did not become true within 0\.02 s"):
            await real_purgatory.wait(["key"], lambda: False, 0.02)
        assert loop.time() - start >= 0.02
        with pytest.raises(TimeoutError):
            await real_purgatory.wait(["key"], lambda: False, 0)

    asyncio.run(main())
    assert real_purgatory.stats()[1:4] == (0, 2, 2)


def test_predicate_that_is_true_at_the_timeout_completes_the_wait(purgatory, timer):
    box = []

    async def main():
        task = asyncio.create_task(purgatory.wait(["key"], lambda: len(box), 5))
        await started(task)
        box.append("content")
        timer.advance(5)
        assert await task == 1

    asyncio.run(main())
    assert purgatory.stats().expired == 1


def test_wait_without_a_timeout_does_not_use_the_timer(purgatory, timer):
    box = []

    async def main():
        task = asyncio.create_task(purgatory.wait(["key"], lambda: box))
        await started(task)
        assert (purgatory.num_delayed, len(timer), purgatory.watched) == (0, 0, 1)
        timer.advance((10**12) / 1000)
        await started(task)
        box.append(1)
        purgatory.check_and_complete("key")
        assert await task == [1]

    asyncio.run(main())


@pytest.mark.parametrize("timeout", [None, 60])
def test_close_raises_timer_closed_in_waiters(purgatory, flagged, timeout):
    other = flagged()
    purgatory.try_complete_else_watch(other, ["key"])

    async def main():
        task = asyncio.create_task(purgatory.wait(["key"], lambda: False, timeout))
        await started(task)
        closing = threading.Thread(target=lambda: returned.extend(purgatory.close()))
        closing.start()
        with pytest.raises(TimerClosed, match="was closed"):
            await task
        closing.join(60)

    returned = []
    asyncio.run(main())
    assert returned == [other]


@pytest.mark.parametrize("timeout", [None, 60])
def test_cancelled_wait_leaks_nothing(purgatory, timer, timeout):
    class Held:
        def __call__(self):
            return False

    async def main():
        held = Held()
        gone.append(weakref.ref(held))
        task = asyncio.create_task(purgatory.wait(["key", "other"], held, timeout))
        del held
        await started(task)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (purgatory.watched, purgatory.num_delayed, len(timer)) == (0, 0, 0)

    gone = []
    asyncio.run(main())
    gc.collect()  # frees tracebacks
    assert gone[0]() is None
    assert purgatory.stats() == (0, 0, 0, 0, 0)


def test_cancel_after_the_completion_reports_no_error(purgatory):
    reported, box = [], []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        task = asyncio.create_task(purgatory.wait(["key"], lambda: box))
        await started(task)
        box.append("content")
        call_in_thread(lambda: purgatory.check_and_complete("key"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)

    asyncio.run(main())
    assert reported == []


def test_exception_of_the_predicate_is_raised_in_the_waiter(purgatory, errors):
    armed = []

    def predicate():
        if armed:
            raise ZeroDivisionError
        return False

    async def main():
        task = asyncio.create_task(purgatory.wait(["key"], predicate, 5))
        await started(task)
        armed.append(1)
        call_in_thread(lambda: purgatory.check_and_complete("key"))
        with pytest.raises(ZeroDivisionError):
            await task
        with pytest.raises(ZeroDivisionError):
            await purgatory.wait(["key"], predicate, 5)

    asyncio.run(main())
    assert errors == []
    assert (purgatory.watched, purgatory.num_delayed) == (0, 0)


def test_check_after_the_loop_was_closed(purgatory, timer, errors):
    async def main():
        waiting = purgatory.wait(["key"], lambda: box, 5)
        waiting.send(None)
        return waiting

    box = []
    left_over = asyncio.run(main())
    box.append(1)
    assert purgatory.check_and_complete("key") == 1
    left_over.close()
    assert errors == []
    assert len(timer) == 0


def test_wait_refuses_bad_arguments(purgatory):
    async def main():
        for arguments, error in [
            ((["key"], None, 1), TypeError),
            ((["key"], bool, "1"), TypeError),
            ((["key"], bool, -1), ValueError),
            ((["key"], bool, float("nan")), ValueError),
            ((["key"], bool, float("inf")), ValueError),
            (([], bool, 1), ValueError),
            (("key", bool, 1), TypeError),
            (([[]], bool, 1), TypeError),
        ]:
            with pytest.raises(error):
                await purgatory.wait(*arguments)
        purgatory.close()
        with pytest.raises(TimerClosed):
            await purgatory.wait(["key"], bool, 1)

    asyncio.run(main())
    assert purgatory.stats() == (0, 0, 0, 0, 0)


def test_purgatory_does_not_import_asyncio():
    assert (
        output_of(
            "-c",
            "import sys, hwheel.purgatory as p\n"
            "with p.DelayedOperationPurgatory('x') as x: x.check_and_complete(1)\n"
            "print('asyncio' in sys.modules)",
        )
        == "False\n"
    )
