"""The cost of other libraries' timeouts, with and without `hwheel run`: processor time of a client's request.

    python bench/dropin/libraries.py

Each turn runs a client in a process of its own, which sends requests one after another to a small server on 127.0.0.1.
The servers of Redis and PostgreSQL are stand-ins that give every command the same response. The last two columns show
the cost of the timeouts alone.
"""

import argparse
import asyncio
import json
import platform
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from hwheel import __version__

# --- the servers ------------------------------------------------------------------------------------------------------

HTTP = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok"


class Responder(asyncio.Protocol):
    """Answer each request of a client that sends one at a time."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(self.response(data))

    def response(self, data: bytes) -> bytes:
        return HTTP


class Redis(Responder):
    def response(self, data: bytes) -> bytes:
        return b"+OK\r\n" * len(re.findall(rb"(?:^|\r\n)\*\d+\r\n", data))


def message(kind: bytes, body: bytes = b"") -> bytes:
    """Return a message of PostgreSQL's protocol."""
    return kind + (len(body) + 4).to_bytes(4, "big") + body


class Postgres(Responder):
    """A server that prepares every statement as `SELECT 1`."""

    COLUMN = b"one\0" + bytes(6) + (23).to_bytes(4, "big") + (4).to_bytes(2, "big") + b"\xff" * 4 + b"\0\1"
    ANSWERS = {
        b"P": message(b"1"),
        b"D": message(b"t", b"\0\0") + message(b"T", b"\0\1" + COLUMN),
        b"B": message(b"2"),
        b"E": message(b"D", b"\0\1\0\0\0\4\0\0\0\1") + message(b"C", b"SELECT 1\0"),
        b"S": message(b"Z", b"I"),
    }
    begun = False

    def response(self, data: bytes) -> bytes:
        if not self.begun:
            self.begun = True
            version = message(b"S", b"server_version\x0016.0\0")
            return message(b"R", bytes(4)) + version + message(b"K", bytes(8)) + message(b"Z", b"I")
        out, at = b"", 0
        while at < len(data):
            out += self.ANSWERS.get(data[at : at + 1], b"")
            at += 1 + int.from_bytes(data[at + 1 : at + 5], "big")
        return out


async def serve(name: str) -> Any:
    """Start the server of a library on a free port."""
    if name == "websockets":
        from websockets.asyncio.server import serve

        async def echo(connection: Any) -> None:
            async for word in connection:
                await connection.send(word)

        return await serve(echo, "127.0.0.1", 0)
    kinds = {"redis-py": Redis, "asyncpg": Postgres}
    return await asyncio.get_running_loop().create_server(kinds.get(name, Responder), "127.0.0.1", 0)


# --- the clients ------------------------------------------------------------------------------------------------------

Repeat = Callable[[Callable[[], Awaitable[object]]], Awaitable[None]]


async def use_aiohttp(port: int, timeouts: bool, repeat: Repeat) -> None:
    import aiohttp

    limits = aiohttp.ClientTimeout(total=30, sock_read=10) if timeouts else aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=limits) as session:

        async def request() -> None:
            async with session.get(f"http://127.0.0.1:{port}/") as response:
                await response.read()

        await repeat(request)


async def use_httpx(port: int, timeouts: bool, repeat: Repeat) -> None:
    import httpx

    async with httpx.AsyncClient(timeout=10 if timeouts else None, trust_env=False) as client:
        await repeat(lambda: client.get(f"http://127.0.0.1:{port}/"))


async def use_fail_after(port: int, timeouts: bool, repeat: Repeat) -> None:
    import anyio

    async def scope() -> None:
        if timeouts:
            with anyio.fail_after(10):
                pass

    await repeat(scope)


async def use_timeout(port: int, timeouts: bool, repeat: Repeat) -> None:
    async def block() -> None:
        if timeouts:
            async with asyncio.timeout(10):
                pass

    await repeat(block)


async def use_asyncpg(port: int, timeouts: bool, repeat: Repeat) -> None:
    import asyncpg

    connection = await asyncpg.connect(host="127.0.0.1", port=port, user="u", database="d", ssl=False)
    await repeat(lambda: connection.fetchval("SELECT 1", timeout=10 if timeouts else None))
    connection.terminate()


async def use_redis(port: int, timeouts: bool, repeat: Repeat) -> None:
    import redis.asyncio

    client = redis.asyncio.Redis(host="127.0.0.1", port=port, socket_timeout=10 if timeouts else None, protocol=2)
    await repeat(lambda: client.get("key"))
    await client.aclose()


async def use_websockets(port: int, timeouts: bool, repeat: Repeat) -> None:
    from websockets.asyncio.client import connect

    async with connect(f"ws://127.0.0.1:{port}/", proxy=None) as connection:

        async def request() -> None:
            await connection.send("word")
            if not timeouts:
                await connection.recv()
                return
            async with asyncio.timeout(10):
                await connection.recv()

        await repeat(request)


CLIENTS = {
    "aiohttp": use_aiohttp,
    "httpx": use_httpx,
    "asyncpg": use_asyncpg,
    "redis-py": use_redis,
    "websockets": use_websockets,
    "anyio.fail_after() alone": use_fail_after,
    "asyncio.timeout() alone": use_timeout,
}


def measure(name: str, port: int, timeouts: bool, count: int) -> None:
    """Print the processor time of a request in microseconds."""

    async def repeat(request: Callable[[], Awaitable[object]]) -> None:
        for _ in range(count // 10):  # caches fill, and the specializing interpreter adapts
            await request()
        begin = time.process_time()
        for _ in range(count):
            await request()
        print(json.dumps((time.process_time() - begin) / count * 1e6))

    asyncio.run(CLIENTS[name](port, timeouts, repeat))


# --- the turns --------------------------------------------------------------------------------------------------------


def client_us(name: str, port: int, timeouts: bool, on_wheel: bool, count: int) -> float:
    start = ["-m", "hwheel", "run"] if on_wheel else []
    words = ["--measure", name, "--port", str(port), "--requests", str(count), *(["--timeouts"] if timeouts else [])]
    done = subprocess.run([sys.executable, "-P", *start, __file__, *words], stdout=subprocess.PIPE, check=True)
    return float(json.loads(done.stdout))


def turns(name: str, rounds: int, count: int) -> dict[tuple[bool, bool], float]:
    """Return the medians for each pair of (on the wheel, with timeouts)."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(serve(name))
    port = next(iter(server.sockets)).getsockname()[1]
    threading.Thread(target=loop.run_forever, daemon=True).start()
    kinds = [(wheel, timeouts) for wheel in (False, True) for timeouts in (False, True)]
    found: dict[tuple[bool, bool], list[float]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for wheel, timeouts in kinds:
            found[wheel, timeouts].append(client_us(name, port, timeouts, wheel, count))
    return {kind: statistics.median(values) for kind, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=2_000, help="requests per turn")
    for option in ("--measure", "--port", "--timeouts"):
        kind: dict[str, Any] = {"action": "store_true"} if option == "--timeouts" else {}
        parser.add_argument(option, **kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(options.measure, int(options.port), options.timeouts, options.requests)
    print(f"hwheel {__version__}, CPython {platform.python_version()}, medians of {options.rounds}, us per request\n")
    print(f"{'':30} {'no timeouts':>12} {'timeouts':>12} {'on wheel':>12} {'added':>10} {'on wheel':>10}")
    for name in CLIENTS:
        us = turns(name, options.rounds, options.requests)
        added = [us[wheel, True] - us[wheel, False] for wheel in (False, True)]
        print(
            f"{name:30} {us[False, False]:12.1f} {us[False, True]:12.1f} {us[True, True]:12.1f} "
            f"{added[0]:10.1f} {added[1]:10.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
