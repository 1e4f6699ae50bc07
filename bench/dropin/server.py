"""A server with an idle timeout and several timeouts a request, on loops with and without the wheel.

    python bench/dropin/server.py

The loops take turns. Each runs a server in another process. This process holds the connections and sends requests at a
fixed rate, independent of responses. Latency counts from the scheduled time of a request. The server closes a
connection that is idle for a minute. A request enters and leaves four blocks of ``async with timeout()``: one for the
whole, and one for each of three calls to other services. The same code runs with asyncio's timeout() on each loop, and
with hwheel's on that loop with its timers on the wheel. A run without timeouts shows the remaining cost. Processor time
is that of the server, in microseconds per request. The lines of uvloop and zuvloop need these packages.
"""

import argparse
import asyncio
import importlib
import json
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Awaitable, Callable
from typing import Any

import hwheel.asyncio
from hwheel import __version__
from hwheel.asyncio import wheel_loop

IDLE_S = 60.0
REQUEST_S = 30.0
CALLS_S = (5.0, 1.0, 10.0)
PATIENCE_S = 60.0

# --- the server --------------------------------------------------------------------------------------------------

answered = 0
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def answer(data: bytes, writer: asyncio.StreamWriter) -> None:
    global answered
    answered += len(data)
    writer.write(data)


async def bare(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each byte with a byte."""
    while data := await reader.read(64):
        answer(data, writer)
    writer.close()


def timed(functions: Any) -> Handler:
    """Return a handler that does the same under the timeouts of a module."""
    timeout = functions.timeout

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        time_of_loop = asyncio.get_running_loop().time
        async with timeout(IDLE_S) as idle:
            while data := await reader.read(64):
                idle.reschedule(time_of_loop() + IDLE_S)
                for _ in data:
                    async with timeout(REQUEST_S):
                        for call_s in CALLS_S:
                            async with timeout(call_s):
                                pass
                answer(data, writer)
        writer.close()

    return handle


Factory = Callable[[], asyncio.AbstractEventLoop]
LOOPS = {"asyncio": "SelectorEventLoop", "uvloop": "Loop", "zuvloop": "EventLoop"}  # package -> class
KINDS: dict[str, tuple[Factory, Handler]] = {}
for package, loop_class in LOOPS.items():
    try:
        base = getattr(importlib.import_module(package), loop_class)
    except ImportError:
        continue
    KINDS |= {
        f"{package}, no timeouts": (base, bare),
        package: (base, timed(asyncio)),
        f"hwheel over {package}": (wheel_loop(base), timed(hwheel.asyncio)),
    }


def serve(kind: str) -> None:
    """Print the port. Then print the processor time and the number of responses for each line of input."""
    loop_factory, handler = KINDS[kind]

    async def main() -> None:
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        server = await asyncio.start_server(handler, "127.0.0.1", 0, backlog=4096)

        def tell() -> None:
            for _ in sys.stdin:
                print(json.dumps([time.process_time(), answered]), flush=True)
            loop.call_soon_threadsafe(over.set)

        print(server.sockets[0].getsockname()[1], flush=True)
        threading.Thread(target=tell, daemon=True).start()
        await over.wait()

    hwheel.asyncio.run(main(), loop_factory=loop_factory)


# --- the client --------------------------------------------------------------------------------------------------


class Asking(asyncio.Protocol):
    """A client with one request at a time. Later requests wait, and their latency includes the wait."""

    def __init__(self, late_ms: "array[float]") -> None:
        self.late_ms = late_ms
        self.due: list[float] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def ask(self, due_s: float) -> None:
        self.due.append(due_s)
        if len(self.due) == 1:
            self.transport.write(b"?")

    def data_received(self, data: bytes) -> None:
        self.late_ms.append((time.monotonic() - self.due.pop(0)) * 1000)
        if self.due:
            self.transport.write(b"?")


async def ask(port: int, connections: int, rate: int, seconds: float, mark: Callable[[], None]) -> "array[float]":
    """Return the latency of each request in ms."""
    loop = asyncio.get_running_loop()
    late_ms = array("d")
    clients = [
        (await loop.create_connection(lambda: Asking(late_ms), "127.0.0.1", port))[1] for _ in range(connections)
    ]
    mark()
    begin, sent, count = time.monotonic(), 0, int(rate * seconds)
    while sent < count:
        due = min(count, int((time.monotonic() - begin) * rate))
        for number in range(sent, due):
            clients[number * 7919 % connections].ask(begin + number / rate)
        sent = due
        await asyncio.sleep(0.001)
    give_up = time.monotonic() + PATIENCE_S
    while len(late_ms) < count and time.monotonic() < give_up:
        await asyncio.sleep(0.01)
    mark()
    for client in clients:
        client.transport.abort()
    if len(late_ms) < count:
        raise RuntimeError(f"{count - len(late_ms):,} of {count:,} requests had no answer")
    return late_ms


def measured(kind: str, connections: int, rate: int, seconds: float) -> dict[str, float]:
    """Run one turn. Return processor time per request in us, and quantiles of the latency in ms."""
    server = subprocess.Popen(
        [sys.executable, "-P", __file__, "--serve", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    marks: list[tuple[float, int]] = []
    with server:
        assert server.stdin is not None and server.stdout is not None
        into, out = server.stdin, server.stdout

        def mark() -> None:
            print(file=into, flush=True)
            marks.append(json.loads(out.readline()))

        port = int(out.readline())
        late_ms = sorted(
            hwheel.asyncio.run(ask(port, connections, rate, seconds, mark), loop_factory=asyncio.new_event_loop)
        )
        into.close()
    (before_s, before), (after_s, after) = marks
    return {
        "us": (after_s - before_s) / (after - before) * 1e6,
        **{f"p{share}": late_ms[int(len(late_ms) * share / 100)] for share in (50, 99)},
    }


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=8_000)
    parser.add_argument("--rate", type=int, default=4_000, help="requests a second, over all connections")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    print(
        f"hwheel {__version__}, {options.connections:,} connections, {options.rate:,} requests a second, "
        f"{options.rounds} rounds of {options.seconds:g} s: medians (minimum to maximum)\n"
    )
    print(f"{'':22} {'us a request':>22} {'of timeouts':>12} {'p50 ms':>22} {'p99 ms':>22}")
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for _ in range(options.rounds):
        for kind, turns in found.items():
            turns.append(measured(kind, options.connections, options.rate, options.seconds))
    for kind, turns in found.items():
        cells = []
        for figure in ("us", "p50", "p99"):
            values = [turn[figure] for turn in turns]
            cells.append(f"{median(values):8.2f} ({min(values):.2f} to {max(values):.2f})".rjust(22))
        without = found[kind.removeprefix("hwheel over ").removesuffix(", no timeouts") + ", no timeouts"]
        of_timeouts = median([turn["us"] - other["us"] for turn, other in zip(turns, without, strict=True)])
        cells.insert(1, f"{of_timeouts:12.2f}")
        print(f"{kind:22} {' '.join(cells)}")


if __name__ == "__main__":
    main()
