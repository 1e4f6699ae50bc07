"""hwheel.asyncio.Timeouts: a wheel for a loop of any kind."""

import asyncio
import math

import pytest

from event_loops import FACTORIES
from hwheel.asyncio import Timeouts


@pytest.fixture(params=list(FACTORIES))
def run(request):
    def run(coroutine):
        with asyncio.Runner(loop_factory=FACTORIES[request.param]) as runner:
            return runner.run(coroutine)

    return run


def test_rescheduled_timeouts_run_once_and_never_early(run):
    async def main():
        loop = asyncio.get_running_loop()
        fired = []
        with Timeouts() as timeouts:
            handles = [timeouts.call_later(0.02, lambda i=i: fired.append((i, loop.time()))) for i in range(100)]
            for _ in range(5):
                await asyncio.sleep(0.005)
                for handle in handles[::2]:
                    handle.reschedule(0.03)
            due = [handle.when() for handle in handles]
            give_up = loop.time() + 60
            while len(timeouts):
                assert loop.time() < give_up
                await asyncio.sleep(0.005)
        assert sorted(i for i, _ in fired) == list(range(100))
        return min(at - due[i] for i, at in fired)

    assert run(main()) >= 0


def test_close_drops_pending_timeouts_and_refuses_new_ones(run):
    async def main():
        timeouts = Timeouts()
        ran = []
        handle = timeouts.call_later(0.001, ran.append, 1)
        assert isinstance(handle, asyncio.TimerHandle)
        assert len(timeouts) == 1
        assert timeouts
        timeouts.close()
        timeouts.close()
        assert len(timeouts) == 0
        assert not handle.reschedule(1)
        for call in (timeouts.call_later, timeouts.call_at):
            with pytest.raises(RuntimeError, match="these timeouts are closed"):
                call(1, ran.append, 2)
        await asyncio.sleep(0.01)
        return ran

    assert run(main()) == []


def test_several_timeouts_share_a_loop(run):
    async def main():
        ran = []
        with Timeouts() as one, Timeouts() as two:
            one.call_later(0.004, ran.append, "one")
            two.call_later(0.002, ran.append, "two")
            two.call_later(math.inf, ran.append, "never")
            while len(ran) < 2:
                await asyncio.sleep(0.001)
        return ran

    assert run(main()) == ["two", "one"]


def test_timeouts_need_a_loop():
    with pytest.raises(RuntimeError):
        Timeouts()


def test_callback_closes_its_timeouts_and_raises(run):
    async def main():
        reported = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))
        timeouts = Timeouts()

        def close():
            timeouts.close()
            raise ValueError("after close")

        when = asyncio.get_running_loop().time() + 0.002
        timeouts.call_at(when, close)
        timeouts.call_at(when, reported.append, "dropped by close()")
        while not reported:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.005)
        asyncio.get_running_loop().set_exception_handler(None)
        return [type(error) for error in reported]

    assert run(main()) == [ValueError]
