"""Single flight: concurrent calls with one key run a function once, and share its result."""

import asyncio
import os
import threading
from typing import Any

from hwheel_core import CachedCall

_MISSING = object()


class _Flight:
    """A call of another thread that others wait for."""

    __slots__ = ("done", "error", "landed", "thread", "value")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.thread = threading.get_ident()
        self.error: Exception | None = None
        self.value: Any = None
        self.landed = False


class ThreadFlights:
    """The running calls of one function, for threads."""

    def __init__(self) -> None:
        self._flights: dict[Any, _Flight] = {}
        self._process = os.getpid()

    def __call__(self, call: CachedCall, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the value of a key that was missing: run the function, or wait for the thread that runs it."""
        while True:
            if self._process != os.getpid():  # the threads that ran calls do not exist in the child of a fork
                self._flights, self._process = {}, os.getpid()
            mine = _Flight()
            flight = self._flights.setdefault(key, mine)
            if flight is mine:
                return self._fly(flight, call, key, args, kwargs)
            if flight.thread == mine.thread:
                return call._function(*args, **kwargs)  # a recursive call cannot wait for itself
            flight.done.wait()
            if flight.error is not None:
                raise flight.error
            if flight.landed:
                call._count_hit()
                return flight.value
            # A KeyboardInterrupt or the like has ended the other call.

    def _fly(self, flight: _Flight, call: CachedCall, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            value = call._look(key, _MISSING)  # the flight before this one may have landed since the caller looked
            if value is _MISSING:
                value = call._function(*args, **kwargs)
                call._store(key, value)
            flight.value, flight.landed = value, True
            return value
        except Exception as error:
            flight.error = error
            raise
        finally:
            self._flights.pop(key, None)
            flight.done.set()


class TaskFlights:
    """The running calls of one coroutine function, for tasks. Each event loop has flights of its own."""

    def __init__(self, call: CachedCall) -> None:
        self._call = call
        self._flights: dict[Any, asyncio.Task[Any]] = {}
        self._waiting: dict[asyncio.Task[Any], int] = {}

    async def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the cached value, or the result of the call that runs. Cancelling the last waiter cancels the call."""
        key = self._call._key(args, kwargs)
        value = self._call._look(key, _MISSING)
        if value is not _MISSING:
            return value
        flight_key = asyncio.get_running_loop(), key
        flight = self._flights.get(flight_key)
        joined = flight is not None
        if flight is None:
            flight = asyncio.create_task(self._fly(key, args, kwargs))
            self._flights[flight_key] = flight
            self._waiting[flight] = 0
            flight.add_done_callback(lambda flight: self._land(flight_key, flight))
        self._waiting[flight] += 1
        try:
            value = await asyncio.shield(flight)
            if joined:
                self._call._count_hit()
            return value
        finally:
            if flight in self._waiting:
                self._waiting[flight] -= 1
                if not self._waiting[flight]:
                    self._land(flight_key, flight)
                    flight.cancel()

    async def _fly(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value = await self._call._function(*args, **kwargs)
        self._call._store(key, value)
        return value

    def _land(self, flight_key: Any, flight: asyncio.Task[Any]) -> None:
        if self._waiting.pop(flight, None) is not None and self._flights.get(flight_key) is flight:
            del self._flights[flight_key]
