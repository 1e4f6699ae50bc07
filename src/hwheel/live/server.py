"""The server of the live look: who listens, the threads that answer, and their end.

Threads. One waits for connections, as long as the server is open. Each connection has one of its own, for one request;
a client that says nothing costs a thread for some seconds. At most MOST of them are there: one more ends the oldest.

There is no lock, because a signal handler may close the server while it is being closed: `_answering` is changed and
read by single steps that no thread can divide.
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
from hwheel.live.answer import Answer
from hwheel.live.look import Looker, Source, Sources
from hwheel.timers.lifecycle import follow_process
from hwheel.timers.start_thread import start_thread

MOST = 100
SHORT_S = 0.1  # how long it waits where the system has no descriptor or memory for a connection
Selector: Callable[[], selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)


def serve(address: Address, *timers: Source) -> "LiveServer":
    """Opens a live look at timers: for `hwheel top`, a browser, Prometheus. See LiveServer, which it returns.

    Arguments:
        address: the path of a Unix socket, a port of 127.0.0.1 (0: any that is free), or (host, port).
        timers: what there is to see: SystemTimers, ManualTimers, DelayedOperationPurgatories. None given: all
            SystemTimers and purgatories of the process, also those that are made later.

    Raises:
        OSError: nobody can listen there: another program does, the file is no socket, there is no such directory.
        TypeError, ValueError: an argument is of the wrong type, or no address.
    """
    return LiveServer(address, *timers)


class LiveServer:
    """LiveServer(address, *timers)

    A live look at the timers of this process, until it is closed: close(), the end of a `with` block, the end of the
    program. Timers are held weakly: what is closed, or gone, is no longer shown.

    It speaks HTTP: `/` is a page for browsers, which needs nothing else; `/live.json` the same as JSON; `/metrics`
    Prometheus' text, if `hwheel[metrics]` is installed. Nothing can be changed through it. It costs nothing until
    somebody looks. A look is O(pending + buckets), some 10 to 50 ms for a million timers, in slices, so that no add
    waits for more than one of them.

    A Unix socket's file can be used by its owner alone (mode 0600); a stale one is replaced. A port can be used by
    whoever is on the machine: there is no password. Requests whose Host is the name of somebody else are refused.

    In the child of a fork it is closed, and the parent's goes on.

    Thread-safety: every method may be called from any thread.

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
        self.looker = Looker(Sources(timers))
        self._answering: dict[socket.socket, threading.Thread] = {}  # the oldest first
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
            start_thread(self._thread)
        except BaseException:
            self._closed = True
            self._listener.remove_file()
            for one in (self._listener.socket, self._wake, self._woken):
                one.close()
            raise

    @property
    def address(self) -> str | tuple[str, int]:
        """The path, or (host, port): the port that it got, if 0 was asked for."""
        return self._listener.address

    @property
    def host(self) -> str | None:
        """The host that it listens on; None: a Unix socket."""
        return None if isinstance(self.address, str) else self.address[0]

    @property
    def closed(self) -> bool:
        """True from close() on, and in the child of a fork."""
        return self._closed

    def close(self) -> None:
        """Ends it: the file is gone, the port is free, and no thread is left. Clients that are being answered are cut
        off. Closing again does nothing, but after one that was interrupted, it goes on. A finalizer may close it in
        one of its own threads, which waits for none of the others, because they may be closing it, too."""
        self._closed = True
        self._listener.remove_file()
        with contextlib.suppress(OSError):
            self._wake.send(b"\0")
        here = threading.current_thread()
        waits = here is not self._thread and here not in [*self._answering.values()]
        if waits:
            self._thread.join()
        while True:
            left = [*self._answering.items()]
            for connection, _ in left:
                cut_off(connection)
            if not left or not waits:
                break
            for _, thread in left:
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
        """The thread that waits for connections."""
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
                    continue  # nobody is there, or not any more
                except OSError:
                    time.sleep(SHORT_S)
                    continue
                self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        thread = threading.Thread(target=self._answer, args=(connection,), name="hwheel-live-answer", daemon=True)
        self._answering[connection] = thread
        for oldest in [*self._answering][:-MOST]:
            cut_off(oldest)
        try:
            thread.start()
        except RuntimeError:  # no more threads can be had, or the interpreter is at its end
            self._end(connection)

    def _answer(self, connection: socket.socket) -> None:
        """The thread of a connection."""
        try:
            Answer(connection, ("", 0), self)  # type: ignore[arg-type]
        except OSError:
            pass  # the client is gone, or does not read
        finally:
            self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        cut_off(connection)
        connection.close()
        self._answering.pop(connection, None)

    # --- the process -------------------------------------------------------------------------------------------------

    def _after_fork_in_child(self) -> None:
        """The threads did not come along. What is open here is a copy: closing it ends nothing of the parent's."""
        self._closed = True
        self._listener.path = None
        connections, self._answering = [*self._answering], {}
        for one in (self._listener.socket, self._wake, self._woken, *connections):
            descriptor = one.detach()  # close() would wait for the files that were made of it
            if descriptor >= 0:
                os.close(descriptor)

    def _at_exit(self) -> None:
        self._closed = True
        self._listener.remove_file()


def cut_off(connection: socket.socket) -> None:
    """Whoever reads from the connection or writes to it comes to an end."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
