"""Single flight: concurrent calls with one key run a function once, and share its result."""

import asyncio
import os
import threading
from contextvars import ContextVar
from typing import Any
from weakref import WeakValueDictionary

from hwheel_core import CachedCall

_MISSING = object()


class _Flight:
    """A call that runs in one thread, and for which other threads may wait."""

    __slots__ = ("error", "landed", "running", "thread", "value")

    def __init__(self) -> None:
        self.running = threading.Lock()  # held until the call has ended; a Ctrl-C cannot interrupt its release
        self.running.acquire()
        self.thread = threading.get_ident()
        self.error: Exception | None = None
        self.value: Any = None
        self.landed = False  # True: `value` is the result


_waits: dict[int, _Flight] = {}  # by thread, the flight that it waits for
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_waits.clear)  # new threads may get the identifiers of the parent's threads


def _needs(flight: _Flight | None, thread: int) -> bool:
    """Return True if a flight needs a thread to end: it runs in the thread, or waits for a flight that does."""
    seen = set()
    while flight is not None and flight not in seen:
        if flight.thread == thread:
            return True
        seen.add(flight)
        flight = _waits.get(flight.thread)
    return False


class ThreadFlights:
    """The running calls of one function, for threads."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._flights: dict[Any, _Flight] = {}
        self._forgetting = threading.RLock()
        self._process = os.getpid()

    def __call__(self, call: CachedCall, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the value of a key that was missing: run the function, or wait for the thread that runs it."""
        while True:
            if self._process != os.getpid():  # the threads that ran calls do not exist in the child of a fork
                self._begin()
            mine = _Flight()
            try:
                flight = self._flights.setdefault(key, mine)
                if flight is mine:
                    self._fly(mine, call, key, args, kwargs)
            finally:
                mine.running.release()
                self._forget(key, mine)
            if flight is mine:
                return mine.value
            if not flight.running.locked():  # the flight has just ended, or a Ctrl-C struck before it was forgotten
                self._forget(key, flight)
                continue
            if not self._wait(flight, mine.thread):
                return call._function(*args, **kwargs)  # a recursive call cannot wait for itself
            if flight.error is not None:
                raise flight.error
            if flight.landed:
                call._count_hit()
                return flight.value
            # A KeyboardInterrupt or the like has ended the other call.

    def _forget(self, key: Any, flight: _Flight) -> None:
        if self._process == os.getpid():
            with self._forgetting:  # otherwise two threads could forget this flight, and the second one its successor
                if self._flights.get(key) is flight:
                    self._flights.pop(key, None)

    def _wait(self, flight: _Flight, thread: int) -> bool:
        """Wait for the end of a flight. Return False at once if the flight needs this thread to end."""
        # Set before the check: of two threads that are about to wait for each other, the second one sees both entries.
        _waits[thread] = flight
        try:
            if _needs(flight, thread):
                return False
            with flight.running:
                return True
        finally:
            _waits.pop(thread, None)  # missing in the child if a signal handler has forked

    def _fly(self, flight: _Flight, call: CachedCall, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            value = call._look(key, _MISSING)  # the flight before this one may have landed since the caller looked
            if value is _MISSING:
                value = call._function(*args, **kwargs)
                call._store(key, value)
            flight.value, flight.landed = value, True
        except Exception as error:
            flight.error = error
            raise


class _TaskFlight:
    """A call that runs in a task of its own, and for which other tasks wait."""

    __slots__ = ("__weakref__", "task", "waiters", "waits_for")

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None
        self.waiters = 0
        self.waits_for: list[_TaskFlight] = []  # flights that its function awaits, also in tasks that it has started

    def needs(self, other: "_TaskFlight") -> bool:
        """Return True if this flight needs another one to end: it is the same one, or waits for it."""
        seen: set[_TaskFlight] = set()
        left = [self]
        while left:
            flight = left.pop()
            if flight is other:
                return True
            if flight not in seen:
                seen.add(flight)
                left += flight.waits_for
        return False


# The innermost flight whose function runs in this context.
_flight: ContextVar[_TaskFlight | None] = ContextVar("hwheel.cachetools.flight", default=None)


class TaskFlights:
    """The running calls of one coroutine function, for tasks. Each event loop has its own flights."""

    def __init__(self, call: CachedCall) -> None:
        self._call = call
        # A running task keeps its flight alive. The dictionary is weak so that flights are freed with a closed loop.
        self._flights: WeakValueDictionary[Any, _TaskFlight] = WeakValueDictionary()

    async def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the cached value, or the result of the call that runs. Cancelling the last waiter cancels the call."""
        key = self._call._key(args, kwargs)
        value = self._call._look(key, _MISSING)
        if value is not _MISSING:
            return value
        flight_key = id(asyncio.get_running_loop()), key  # a flight keeps its loop alive, so no other loop has its id
        flight, outer = self._flights.get(flight_key), _flight.get()
        if flight is None:
            return await self._wait(flight_key, self._begin(flight_key, args, kwargs), outer)
        if outer is not None and flight.needs(outer):
            return await self._call._function(*args, **kwargs)  # a recursive call cannot wait for itself
        value = await self._wait(flight_key, flight, outer)
        self._call._count_hit()
        return value

    def _begin(self, flight_key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _TaskFlight:
        flight = _TaskFlight()
        flight.task = asyncio.create_task(self._fly(flight, flight_key[1], args, kwargs))
        self._flights[flight_key] = flight
        flight.task.add_done_callback(lambda _: self._land(flight_key, flight))
        return flight

    async def _wait(self, flight_key: Any, flight: _TaskFlight, outer: _TaskFlight | None) -> Any:
        """Wait for a flight. outer: the flight whose function makes this call, or None."""
        task: Any = flight.task
        flight.waiters += 1
        if outer is not None:
            outer.waits_for.append(flight)
        try:
            return await asyncio.shield(task)
        finally:
            if outer is not None:
                outer.waits_for.remove(flight)
            flight.waiters -= 1
            if not flight.waiters:
                self._land(flight_key, flight)
                if not task.get_loop().is_closed():  # otherwise the garbage collector is ending this coroutine
                    task.cancel()

    async def _fly(self, flight: _TaskFlight, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _flight.set(flight)
        value = await self._call._function(*args, **kwargs)
        self._call._store(key, value)
        return value

    def _land(self, flight_key: Any, flight: _TaskFlight) -> None:
        flight.task = None  # tasks that the function has started keep the flight, but need no result
        if self._flights.get(flight_key) is flight:
            del self._flights[flight_key]
