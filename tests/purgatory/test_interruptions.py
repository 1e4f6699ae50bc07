"""An interrupt at any line of the purgatories' Python code loses no future or operation and leaves no lock held."""

import asyncio
from concurrent.futures import Future

import pytest

from hwheel.purgatory import DelayedFuturePurgatory, DelayedOperationPurgatory
from interrupts import interrupt_each_line
from threads import call_in_thread

HERE = ("purgatory.py", "operation.py", "asyncio_wait.py")


@pytest.mark.parametrize("action", ["close", "cancel_for_key"])
def test_interrupted_close_or_cancel_loses_no_operation(timer, flagged, action):
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
            # Both calls return the first operation, which is also watched for another key.
            assert {id(one) for one in [*(returned or []), *again]} == set(map(id, operations))
        assert purgatory.close() == []
        assert len(timer) == 0 and purgatory.watched == purgatory.num_delayed == 0
        assert not any(operation.is_completed for operation in operations)

    assert interrupt_each_line(scenario, HERE) > 3


@pytest.mark.parametrize("fail_pending", [False, True])
@pytest.mark.parametrize("how", ["add", "finish", "expire"])
def test_interrupt_loses_no_future(timer, fail_pending, how):
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


def test_interrupted_wait_leaves_nothing_watched(timer):
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
