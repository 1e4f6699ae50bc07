"""An aiohttp server and client with a timeout on each request."""

import asyncio
from collections import Counter

import pytest

import hwheel.asyncio
from hwheel.asyncio import EventLoop, wheel_loop

aiohttp = pytest.importorskip("aiohttp", reason="aiohttp is not installed")
web = pytest.importorskip("aiohttp.web", reason="aiohttp is not installed")

REQUESTS = 5000
AT_ONCE = 50
FACTORIES = {
    "hwheel": lambda: EventLoop,
    "hwheel over uvloop": lambda: wheel_loop(pytest.importorskip("uvloop").Loop),
}


async def answer(request):
    number = int(request.query["number"])
    if number % 500 == 0:
        await asyncio.sleep(60)  # longer than the client waits
    elif number % 50 == 0:
        await asyncio.sleep(0.002)
    return web.Response(text=str(number * 2))


async def requests(count):
    """Send the requests. Return the result of each request by number."""
    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application, keepalive_timeout=30, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    results = {}
    numbers = iter(range(1, count + 1))

    async def client(session):
        for number in numbers:
            # Only requests that must time out get a short timeout, so that a slow machine changes no result.
            total = 0.2 if number % 500 == 0 else 60
            try:
                async with session.get(
                    f"http://{host}:{port}/",
                    params={"number": number},
                    timeout=aiohttp.ClientTimeout(total=total, sock_read=59, sock_connect=58),
                ) as response:
                    results[number] = response.status, await response.text()
            except TimeoutError:
                results[number] = "timeout"

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*[client(session) for _ in range(AT_ONCE)])
    await runner.cleanup()
    return results


def expected(count):
    return {number: "timeout" if number % 500 == 0 else (200, str(number * 2)) for number in range(1, count + 1)}


@pytest.mark.parametrize("kind", FACTORIES)
def test_requests_with_timeouts(kind):
    results = hwheel.asyncio.run(requests(REQUESTS), loop_factory=FACTORIES[kind]())
    assert results == expected(REQUESTS)
    assert Counter(result == "timeout" for result in results.values()) == {False: REQUESTS - 10, True: 10}
