"""Packages that patch or replace an event loop work on the wheel as on asyncio's loop."""

import asyncio
import datetime
import subprocess
import sys
import textwrap
import time

import pytest

from hwheel.asyncio import EventLoop, wheel_loop

LOOPS = ["asyncio", "hwheel"]


@pytest.fixture(params=LOOPS)
def loop_class(request):
    return {"asyncio": asyncio.SelectorEventLoop, "hwheel": EventLoop}[request.param]


def run_in_process(loop_class, program):
    """Run a program that patches asyncio in its own process. Return the words that it prints."""
    made = "hwheel.asyncio.EventLoop" if loop_class is EventLoop else "asyncio.SelectorEventLoop"
    head = f"import asyncio, time, hwheel.asyncio\nloop = {made}()\nasyncio.set_event_loop(loop)\n"
    done = subprocess.run(
        [sys.executable, "-P", "-c", head + textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="nest_asyncio cannot nest asyncio's tasks from CPython 3.14 on")
def test_nest_asyncio(loop_class):
    pytest.importorskip("nest_asyncio")
    printed = run_in_process(
        loop_class,
        """
        import nest_asyncio
        nest_asyncio.apply(loop)

        def callback(name):
            print(name, loop.run_until_complete(inner(name)))

        async def inner(name):
            await asyncio.sleep(0.01)
            return await asyncio.wait_for(asyncio.sleep(0.01, name * 2), 5)

        async def main():
            when = loop.time() + 0.01
            for name in "ab":
                loop.call_at(when, callback, name)
            loop.call_later(0.02, print, "meanwhile")
            loop.run_until_complete(asyncio.sleep(0.2))
            return asyncio.run(inner("deep"))

        print(loop.run_until_complete(main()))
        loop.close()
    """,
    )
    assert sorted(printed) == ["a", "aa", "b", "bb", "deepdeep", "meanwhile"]


def test_looptime(loop_class):
    looptime = pytest.importorskip("looptime")
    loop = loop_class()
    patched = looptime.patch_event_loop(loop, start=100)
    assert patched is loop

    async def main():
        await asyncio.sleep(3600)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(50), 10)
        return loop.time()

    started = time.perf_counter()
    assert loop.run_until_complete(main()) == pytest.approx(3710, abs=0.01)
    assert time.perf_counter() - started < 20
    loop.close()


def test_aiotools_virtual_clock(loop_class):
    aiotools = pytest.importorskip("aiotools")

    async def main():
        clock = aiotools.VirtualClock()
        ran = []
        with clock.patch_loop():
            loop = asyncio.get_running_loop()
            loop.call_later(1800, ran.append, "half")
            start = loop.time()
            await asyncio.sleep(3600)
            ran.append("slept")
            return ran, loop.time() - start

    started = time.perf_counter()
    with asyncio.Runner(loop_factory=loop_class) as runner:
        ran, slept = runner.run(main())
    assert ran == ["half", "slept"]
    assert slept == pytest.approx(3600, abs=0.01)
    assert time.perf_counter() - started < 20


def test_aiodebug_names_slow_callbacks(loop_class, monkeypatch):
    log_slow_callbacks = pytest.importorskip("aiodebug.log_slow_callbacks")
    monkeypatch.setattr(asyncio.events.Handle, "_run", asyncio.events.Handle._run)  # restored afterwards
    slow = []
    log_slow_callbacks.enable(0.25, on_slow_callback=lambda name, seconds: slow.append(name))

    def slow_one():
        time.sleep(0.3)  # clearly longer than any other callback on a busy machine

    loop = loop_class()
    loop.call_later(0.001, slow_one)
    loop.call_later(0.001, time.sleep, 0.001)
    loop.call_later(0.05, loop.stop)
    loop.run_forever()
    loop.close()
    assert len(slow) == 1
    assert "slow_one" in slow[0]


def test_freezegun_ticks_advance_the_loop(loop_class):
    freezegun = pytest.importorskip("freezegun")
    loop = loop_class()
    ran = []
    with freezegun.freeze_time("2024-01-01") as frozen:
        loop.call_later(3600, ran.append, 1)
        for _ in range(3):
            loop.call_soon(loop.stop)
            loop.run_forever()
        assert ran == []
        frozen.tick(datetime.timedelta(seconds=3601))
        for _ in range(3):
            loop.call_soon(loop.stop)
            loop.run_forever()
        assert ran == [1]
    loop.close()


def test_freezegun_with_real_asyncio(loop_class):
    freezegun = pytest.importorskip("freezegun")
    with freezegun.freeze_time("2024-01-01", real_asyncio=True), asyncio.Runner(loop_factory=loop_class) as runner:
        assert runner.run(asyncio.wait_for(asyncio.sleep(0.01, "slept"), 10)) == "slept"
    del asyncio.SelectorEventLoop.time  # freezegun leaves the inherited attribute on the class


def test_time_machine_does_not_affect_the_loops_clock(loop_class):
    time_machine = pytest.importorskip("time_machine")
    with asyncio.Runner(loop_factory=loop_class) as runner:
        with time_machine.travel(datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)) as traveller:
            assert runner.run(asyncio.sleep(0.005, "slept")) == "slept"
            traveller.shift(1e6)
            assert runner.run(asyncio.wait_for(asyncio.sleep(0.005, "slept"), 10)) == "slept"


@pytest.mark.parametrize("kind", ["asyncio", "hwheel"])
def test_async_solipsism(kind):
    async_solipsism = pytest.importorskip("async_solipsism")
    loop = (wheel_loop(async_solipsism.EventLoop) if kind == "hwheel" else async_solipsism.EventLoop)()

    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(7200), 3600)
        await asyncio.gather(*(asyncio.sleep(i / 7) for i in range(100)))
        return loop.time()

    started = time.perf_counter()
    assert loop.run_until_complete(main()) == pytest.approx(3600 + 99 / 7, abs=0.01)
    assert time.perf_counter() - started < 20
    loop.close()
