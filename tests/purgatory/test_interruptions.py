"""A Ctrl-C at any line of the purgatories' Python code: no future and no operation is lost, no lock stays taken."""

import asyncio
from concurrent.futures import Future

import pytest

from hwheel import ManualTimer
from hwheel.purgatory import DelayedFuturePurgatory, DelayedOperationPurgatory, ThresholdPurgatory
from interrupts import interrupt_each_line
from threads import call_in_thread

HERE = ("purgatory.py", "operation.py", "asyncio_wait.py", "each.py", "operation_lock.py")


@pytest.mark.parametrize("action", ["maybe_complete", "complete_all", "complete_all_exceptionally", "close", "advance"])
def test_thresholds(action):
    def scenario():
        with ManualTimer(on_error=lambda *_: None) as timer:
            thresholds = ThresholdPurgatory("interrupted", timer)
            futures = [thresholds.await_(number, 500) for number in (3, 1, 2, 7)]
            yield {
                "maybe_complete": lambda: thresholds.maybe_complete(3),
                "complete_all": thresholds.complete_all,
                "complete_all_exceptionally": lambda: thresholds.complete_all_exceptionally(LookupError()),
                "close": thresholds.close,
                "advance": lambda: timer.advance(0.6),
            }[action]
            if action == "maybe_complete":
                assert not futures[3].done()
            call_in_thread(lambda: thresholds.maybe_complete(3))
            assert all(future.done() for future in futures[:3])
            call_in_thread(thresholds.close)
            assert all(future.done() for future in futures)
            assert thresholds.num_waiting == len(timer) == 0

    assert interrupt_each_line(scenario, HERE) > 5


def test_await(timer):
    def scenario():
        thresholds = ThresholdPurgatory("interrupted", timer)
        first = thresholds.await_(5, 500)
        future = yield lambda: thresholds.await_(3, 500)
        assert thresholds.num_waiting == len(timer) == 1 + (future is not None)
        call_in_thread(lambda: thresholds.maybe_complete(3))
        assert future is None or future.done()
        assert not first.done()
        call_in_thread(thresholds.close)
        assert len(timer) == 0 and first.done()

    assert interrupt_each_line(scenario, HERE) > 5


@pytest.mark.parametrize("action", ["close", "cancel_for_key"])
def test_operations_that_are_taken_out(timer, flagged, action):
    def scenario():
        purgatory = DelayedOperationPurgatory("interrupted", timer)
        operations = [flagged(delay) for delay in (5000, 3000, 4000)]
        for operation in operations:
            purgatory.try_complete_else_watch(operation, ["a", "b"] if operation is operations[0] else ["a"])
        returned = yield purgatory.close if action == "close" else lambda: purgatory.cancel_for_key("a")
        again = call_in_thread(purgatory.close)
        if action == "close":
            assert sorted(map(id, [*(returned or []), *again])) == sorted(map(id, operations))
            assert again == sorted(again, key=lambda operation: operation.delay_ms)
        else:
            # The first is still watched for another key: it comes from both.
            assert {id(one) for one in [*(returned or []), *again]} == set(map(id, operations))
        assert purgatory.close() == []
        assert len(timer) == 0 and purgatory.watched == purgatory.num_delayed == 0
        assert not any(operation.is_completed for operation in operations)

    assert interrupt_each_line(scenario, HERE) > 3


@pytest.mark.parametrize("fail_pending", [False, True])
@pytest.mark.parametrize("how", ["add", "finish", "expire"])
def test_futures(timer, fail_pending, how):
    def scenario():
        called = []
        purgatory = DelayedFuturePurgatory("interrupted", timer, fail_pending=fail_pending)
        futures = [Future(), Future()]

        def add():
            return purgatory.try_complete_else_watch(500, futures, lambda: called.append(1))

        if how == "add":
            operation = yield add
            futures[0].set_result(1)
            futures[1].set_result(2)
            assert called == ([] if operation is None else [1])
        else:
            operation = add()
            yield (
                (lambda: [future.set_result(1) for future in futures])
                if how == "finish"
                else lambda: timer.advance(0.6)
            )
            for future in futures:
                future.cancel() or future.done() or future.set_result(1)
            timer.advance(0.6)
            assert len(called) <= 1
            assert called or operation in purgatory.close() or operation.is_completed
        call_in_thread(purgatory.close)
        assert len(timer) == 0 and purgatory.purgatory.watched == 0

    assert interrupt_each_line(scenario, HERE) > 3


def test_a_coroutine_that_waits(timer):
    def scenario():
        purgatory = DelayedOperationPurgatory("interrupted", timer)
        ready = []

        async def main():
            asyncio.get_running_loop().call_later(0.005, lambda: (ready.append(7), purgatory.check_and_complete("key")))
            return await purgatory.wait(["key"], lambda: ready and ready[0], 60)

        result = yield lambda: asyncio.run(main())
        assert result in (None, 7)
        assert purgatory.watched == purgatory.num_delayed == len(timer) == 0
        call_in_thread(purgatory.close)

    assert interrupt_each_line(scenario, ("asyncio_wait.py", "purgatory/purgatory.py")) > 10
