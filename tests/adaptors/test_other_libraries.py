"""Libraries that need no adaptor: on a wheel loop, their timeouts use the wheel."""

import asyncio
import re
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

import hwheel.asyncio
from hwheel.asyncio import EventLoop, TimerHandle

PAGE = Path(__file__).parents[2] / "docs/adaptors.md"
SOON_S = 0.05


class CheckedLoop(EventLoop):
    """An event loop that records its timers, and the callbacks that ran early."""

    def __init__(self):
        super().__init__()
        self.handles = []
        self.early = []

    def call_at(self, when, callback, *args, context=None):
        def on_time(*args):
            if self.time() < when:
                self.early.append(callback)
            callback(*args)

        handle = super().call_at(when, on_time, *args, context=context)
        if type(handle) is TimerHandle:
            self.handles.append(handle)
        return handle

    def call_later(self, delay, callback, *args, context=None):
        return self.call_at(self.time() + delay, callback, *args, context=context)


@asynccontextmanager
async def silent_server():
    """Yield the port of a server that accepts connections and sends nothing."""
    writers = []

    async def never_answer(reader, writer):
        writers.append(writer)

    server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        for writer in writers:
            writer.close()
        server.close()


async def use_tornado():
    ioloop = pytest.importorskip("tornado.ioloop")
    gen = pytest.importorskip("tornado.gen")
    io, ticks, enough = ioloop.IOLoop.current(), [], asyncio.Event()
    io.remove_timeout(io.call_later(SOON_S / 2, ticks.append, "removed"))

    def tick():
        ticks.append("tick")
        if len(ticks) == 3:
            enough.set()

    periodic = ioloop.PeriodicCallback(tick, 5)
    periodic.start()
    await enough.wait()
    periodic.stop()
    with pytest.raises(gen.TimeoutError):
        await gen.with_timeout(timedelta(seconds=SOON_S), asyncio.Future())
    assert ticks == ["tick"] * 3


async def use_aiohttp():
    aiohttp = pytest.importorskip("aiohttp")
    async with silent_server() as port, aiohttp.ClientSession() as session:
        with pytest.raises(TimeoutError):
            await session.get(f"http://127.0.0.1:{port}/", timeout=aiohttp.ClientTimeout(total=SOON_S))


async def use_anyio():
    anyio = pytest.importorskip("anyio")
    with anyio.move_on_after(SOON_S) as scope:
        await anyio.sleep(60)
    assert scope.cancelled_caught
    with pytest.raises(TimeoutError):
        with anyio.fail_after(SOON_S):
            await anyio.Event().wait()


async def use_websockets():
    connect = pytest.importorskip("websockets.asyncio.client").connect
    async with silent_server() as port:
        with pytest.raises(TimeoutError):
            await connect(f"ws://127.0.0.1:{port}/", open_timeout=SOON_S)


async def use_redis():
    redis = pytest.importorskip("redis.asyncio")
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    async with silent_server() as port:
        once = Retry(NoBackoff(), 0)
        client = redis.Redis(host="127.0.0.1", port=port, socket_timeout=SOON_S, retry=once)
        with pytest.raises(redis.RedisError, match="(?i)time"):
            await client.ping()
        await client.aclose()


async def use_asyncpg():
    asyncpg = pytest.importorskip("asyncpg")
    async with silent_server() as port:
        with pytest.raises(TimeoutError):
            await asyncpg.connect(host="127.0.0.1", port=port, user="nobody", ssl=False, timeout=SOON_S)


USES = {function.__name__.removeprefix("use_"): function for function in (
    use_tornado, use_aiohttp, use_anyio, use_websockets, use_redis, use_asyncpg,
)}  # fmt: skip


@pytest.mark.parametrize("name", USES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_timeouts_of_a_library_run_on_the_wheel(name):
    loop = None

    def make():
        nonlocal loop
        loop = CheckedLoop()
        return loop

    async def within_patience():
        await asyncio.wait_for(USES[name](), 60)

    hwheel.asyncio.run(within_patience(), loop_factory=make)
    assert len(loop.handles) >= 2  # one is the time limit of this test
    assert loop.early == []


def test_the_page_lists_exactly_these_libraries():
    table = PAGE.read_text().partition("## asyncio libraries")[2].partition("\n## ")[0]
    assert [name.lower() for name in re.findall(r"^\| (\w+) \|", table, re.MULTILINE)[1:]] == [*USES]
