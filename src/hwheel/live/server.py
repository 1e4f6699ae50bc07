"""The live server and its threads.

One thread waits for connections. Each connection has its own thread for one request, so that a client that sends
nothing blocks no other client. There are at most MAX_CONNECTIONS connections: a further one ends the oldest.

There is no lock, because a signal handler can call close() while close() runs. Every access to `_connections` is
atomic.
"""

import contextlib
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from hwheel.live.address import Address, Listener
from hwheel.live.http_handler import Handler
from hwheel.live.snapshot import Source, Sources
from hwheel.timers.lifecycle import follow_process

MAX_CONNECTIONS = 100
RETRY_S = 0.1  # the pause after accept() failed for lack of descriptors or memory
Selector: Callable[[], selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)


def serve(address: Address, *timers: Source) -> "LiveServer":
    """Serve snapshots of timers to ``hwheel top``, browsers, and Prometheus.

    Args:
        address: The path of a Unix socket, a port of 127.0.0.1 (0 for any free one), or (host, port).
        timers: The SystemTimers, ManualTimers, and DelayedOperationPurgatories to show. Default: all SystemTimers and
            purgatories of the process, including later ones.

    Returns:
        The running LiveServer.

    Raises:
        OSError: The address cannot be used: another program listens there, the file is not a socket, or the directory
            does not exist.
        TypeError, ValueError: An argument is invalid.

    Example:
        >>> from hwheel import ManualTimer
        >>> from hwheel.live import serve
        >>> timer = ManualTimer("requests")
        >>> with serve(0, timer) as server:
        ...     host, port = server.address
        >>> host
        '127.0.0.1'
    """
    return LiveServer(address, *timers)


class LiveServer:
    """LiveServer(address, *timers)

    Serve snapshots of this process's timers until ``close()``, the end of a ``with`` block, or the end of the program.

    The server speaks HTTP: ``/`` is a page for browsers without external resources; ``/live.json`` has the same data as
    JSON; ``/timers`` has the census of each timer, see ``census()``; ``/metrics`` is Prometheus' text format, if
    ``hwheel[metrics]`` is installed. All pages are read-only. Timers are referenced weakly; closed or freed timers are
    not shown.

    Only the owner can use a Unix socket (mode 0600). A stale socket is replaced. Every user of the machine can use a
    port, without a password. A request whose Host header names another server is refused.

    In a forked child the server is closed, and the parent's server continues.

    A snapshot is O(pending + buckets): 10 to 50 ms for a million timers, in slices, so that an add waits for one slice
    at most. Between requests the server costs nothing. Thread-safe.

    Args:
        address: As in ``serve()``.
        timers: As in ``serve()``.

    >>> from hwheel import ManualTimer
    >>> from hwheel.live import LiveServer
    >>> timer = ManualTimer("requests")
    >>> with LiveServer(0, timer) as server:
    ...     server.address[0]
    '127.0.0.1'
    >>> server.closed
    True
    """

    __module__ = "hwheel.live"

    def __init__(self, address: Address, *timers: Source) -> None:
        self.sources = Sources(timers)
        self._connections: dict[socket.socket, threading.Thread] = {}  # the oldest first
        self._closed = False
        self._thread = threading.Thread(target=self._accept, name="hwheel-live", daemon=True)
        self._wake, self._woken = socket.socketpair()
        try:
            self._listener = Listener(address)
        except BaseException:
            self._wake.close()
            self._woken.close()
            raise
        try:
            follow_process(self)
            self._thread.start()
        except BaseException:
            self._closed = True
            self._listener.remove_file()
            for end in (self._listener.socket, self._wake, self._woken):
                end.close()
            raise

    @property
    def address(self) -> str | tuple[str, int]:
        """The path, or (host, port) with the actual port."""
        return self._listener.address

    @property
    def host(self) -> str | None:
        """The host that the server listens on; None for a Unix socket."""
        return None if isinstance(self.address, str) else self.address[0]

    @property
    def closed(self) -> bool:
        """True after close(), and in a forked child."""
        return self._closed

    def close(self) -> None:
        """Close the server: remove the socket's file, free the port, end all threads, and disconnect clients.

        Idempotent; a further call continues a close() that was interrupted.

        Example:
            >>> from hwheel.live import serve
            >>> server = serve(0)
            >>> server.close()
            >>> server.closed
            True
        """
        self._closed = True
        self._listener.remove_file()
        with contextlib.suppress(OSError):
            self._wake.send(b"\0")
        self._thread.join()
        while left := [*self._connections.items()]:
            for connection, thread in left:
                shut_down(connection)
                thread.join()
        self._wake.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LiveServer {self.address!r}{', closed' if self.closed else ''}>"

    # --- threads -----------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        listener = self._listener.socket
        listener.setblocking(False)
        with listener, self._woken, Selector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._closed:
                selector.select()
                try:
                    connection, _ = listener.accept()
                except (BlockingIOError, ConnectionError):
                    continue  # close() was called, or the client has disconnected
                except OSError:
                    time.sleep(RETRY_S)
                    continue
                self._start(connection)

    def _start(self, connection: socket.socket) -> None:
        thread = threading.Thread(target=self._handle, args=(connection,), name="hwheel-live-request", daemon=True)
        self._connections[connection] = thread
        for oldest in [*self._connections][:-MAX_CONNECTIONS]:
            shut_down(oldest)
        try:
            thread.start()
        except RuntimeError:  # the limit of threads is reached, or the interpreter exits
            self._end(connection)

    def _handle(self, connection: socket.socket) -> None:
        try:
            Handler(connection, ("", 0), self)  # type: ignore[arg-type]
        except OSError:
            pass  # the client has disconnected, or does not read
        finally:
            self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        shut_down(connection)
        connection.close()
        self._connections.pop(connection, None)

    # --- the process -------------------------------------------------------------------------------------------------

    def _after_fork_in_child(self) -> None:
        """Close the child's copies of the sockets, which does not affect the parent. The child has no threads."""
        self._closed = True
        self._listener.path = None
        connections, self._connections = [*self._connections], {}
        for end in (self._listener.socket, self._wake, self._woken, *connections):
            descriptor = end.detach()  # close() would wait for file objects of the socket
            if descriptor >= 0:
                os.close(descriptor)

    def _at_exit(self) -> None:
        self._closed = True
        self._listener.remove_file()


def shut_down(connection: socket.socket) -> None:
    """End all reads and writes on the connection."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
