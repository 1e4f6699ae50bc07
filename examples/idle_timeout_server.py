"""A server that closes idle connections, as websocket servers do, before and after the change to hwheel.

    python examples/idle_timeout_server.py [--connections 10000] [--seconds 10] [--idle 5]

Each message restarts the idle timeout of its connection. "Before" cancels the asyncio timer and creates a new one.
"After" keeps one handle per connection and reschedules it, on one `Timeouts` for all connections. Both servers run in
turn on the loopback with the same clients, one in ten of which becomes silent and is disconnected.

A connection needs two descriptors of this process. If the system allows fewer, there are fewer connections.
"""

import argparse
import asyncio
import contextlib
import resource
import time
from typing import Any

import hwheel.asyncio

MESSAGE = b"ping\n"


class Connection(asyncio.Protocol):
    """The common part of both servers: it counts messages, and sends none."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.handle: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.server.open += 1
        self.start_timeout()

    def data_received(self, data: bytes) -> None:
        self.server.messages += 1
        started = time.perf_counter_ns()
        self.restart_timeout()
        self.server.spent_ns += time.perf_counter_ns() - started

    def connection_lost(self, error: Exception | None) -> None:
        self.handle.cancel()
        self.server.open -= 1

    def on_idle(self) -> None:
        self.server.idled += 1
        self.transport.close()

    def start_timeout(self) -> None:
        raise NotImplementedError

    def restart_timeout(self) -> None:
        raise NotImplementedError


class Before(Connection):
    """asyncio: cancel the timer and create a new one for every message."""

    def start_timeout(self) -> None:
        self.handle = self.server.loop.call_later(self.server.idle_s, self.on_idle)

    def restart_timeout(self) -> None:
        self.handle.cancel()
        self.start_timeout()


class After(Connection):
    """hwheel: move the timer of the connection."""

    def start_timeout(self) -> None:
        self.handle = self.server.timeouts.call_later(self.server.idle_s, self.on_idle)

    def restart_timeout(self) -> None:
        self.handle.reschedule(self.server.idle_s)


class Server:
    def __init__(self, connection: type[Connection], idle_s: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.timeouts = hwheel.asyncio.Timeouts()
        self.connection = connection
        self.idle_s = idle_s
        self.open = self.messages = self.idled = self.spent_ns = 0

    async def start(self) -> int:
        self.listening = await self.loop.create_server(lambda: self.connection(self), "127.0.0.1", 0, backlog=1024)
        port: int = self.listening.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        self.listening.close()
        await self.listening.wait_closed()
        self.timeouts.close()


class Client(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.lost = asyncio.get_running_loop().create_future()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(None)


async def connect(port: int, count: int) -> list[Client]:
    loop = asyncio.get_running_loop()
    clients: list[Client] = []
    while len(clients) < count:
        some = min(200, count - len(clients))
        pairs = await asyncio.gather(*[loop.create_connection(Client, "127.0.0.1", port) for _ in range(some)])
        clients += [client for _, client in pairs]
    return clients


async def talk(clients: list[Client], seconds: float, idle_s: float) -> None:
    """Send messages from each client at least twice per idle timeout."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    slices = 20
    while loop.time() < end:
        for first in range(slices):
            for client in clients[first::slices]:
                if not client.transport.is_closing():  # a slow machine makes clients silent
                    client.transport.write(MESSAGE)
            await asyncio.sleep(idle_s / 4 / slices)


async def measure(connection: type[Connection], connections: int, seconds: float, idle_s: float) -> dict[str, float]:
    """Measure a server. One in ten clients is silent after its first message, and only these must be dropped."""
    server = Server(connection, idle_s)
    port = await server.start()
    clients = await connect(port, connections)
    silent, talking = clients[::10], [client for i, client in enumerate(clients) if i % 10]
    for client in silent:
        client.transport.write(MESSAGE)
    cpu = time.process_time()
    await talk(talking, seconds, idle_s)
    cpu = time.process_time() - cpu
    figures = {
        "messages": server.messages,
        "us": server.spent_ns / 1000 / server.messages,
        "cpu_s": cpu,
        "dropped": server.idled,
    }
    await asyncio.gather(*[client.lost for client in clients])  # all clients are silent now
    figures |= {"dropped_later": server.idled - figures["dropped"], "open": server.open}
    await server.stop()
    return figures


def room_for(connections: int) -> int:
    """Raise the limit of descriptors, and return the number of possible connections."""
    wanted = 2 * connections + 100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limits in ((wanted, max(wanted, hard)), (min(wanted, hard), hard)):  # only root can raise the hard limit
        if soft < wanted:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = min(connections, (soft - 100) // 2)
    if room < connections:
        print(f"only {soft:,} descriptors are allowed: {room:,} connections instead of {connections:,}")
    return room


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10, help="how long the clients send messages")
    parser.add_argument("--idle", type=float, default=5, help="idle timeout in seconds")
    options = parser.parse_args(arguments)
    connections = room_for(options.connections)
    turns: list[tuple[str, type[Connection], Any]] = [
        ("before: asyncio, cancel and call_later", Before, asyncio.new_event_loop),
        ("after:  asyncio with Timeouts, reschedule", After, asyncio.new_event_loop),
        ("after:  hwheel.asyncio, reschedule", After, hwheel.asyncio.new_event_loop),
    ]
    print(f"{connections:,} connections, dropped after {options.idle:g} s of silence")
    for what, connection, factory in turns:
        figures = hwheel.asyncio.run(
            measure(connection, connections, options.seconds, options.idle), loop_factory=factory
        )
        print(
            f"{what:42} {figures['messages']:8,} messages, {figures['us']:5.2f} us each for the timeout, "
            f"{figures['cpu_s']:5.2f} s of CPU, clients included; dropped {figures['dropped']:,} while the others "
            f"talked, {figures['dropped_later']:,} after, left open {figures['open']:,}"
        )


if __name__ == "__main__":
    main()
