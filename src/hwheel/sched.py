"""hwheel.sched: the standard module `sched`, with cancel() in O(1) and a run() that notices changes by other threads.

This is a heap and not a wheel, because a wheel has to divide times by its tick. Here a time is any value that
`timefunc` returns, as long as times can be compared and subtracted: floats, Fractions, datetimes. Events of equal time
run in the order of their priorities, which can be any comparable values. Only a heap gives exactly this order.

cancel() is O(1) all the same. A dictionary holds the pending events, and the heap holds only their keys. The key of a
cancelled event stays in the heap until it reaches the top, or until most keys are of cancelled events.

Example:
    >>> from hwheel import sched
    >>> scheduler = sched.scheduler()
    >>> timeout = scheduler.enter(0.02, 1, print, ("no answer",))
    >>> answer = scheduler.enter(0.01, 1, scheduler.cancel, (timeout,))
    >>> scheduler.run()
    >>> scheduler.empty()
    True
"""

import contextlib
import heapq
import threading
import time as _time
from collections.abc import Callable
from itertools import count
from sched import Event
from typing import Any, TypeAlias

from hwheel.timers.lifecycle import follow_process
from hwheel_core import RLock

__all__ = ["Event", "scheduler"]

_Key: TypeAlias = tuple[Any, Any, int]

_sleep = _time.sleep
_MIN_REBUILD_KEYS = 64


class scheduler:
    """A queue of events, with a run() that waits for each event and calls its action.

    Events run in the order of their time, then of their priority (the lower first), then in the order in which they
    were entered. The interface is that of the standard library's sched.scheduler; docs/drop_in.md lists the
    differences.

    Args:
        timefunc: Returns the current time. Times can be any values that can be compared and subtracted.
        delayfunc: Called with a difference of times, or 0, to wait. With the default, run() waits in such a way that it
            notices when another thread enters an earlier event or cancels the event that it waits for. Any other
            function is called exactly as the standard library calls it.

    Thread-safe: any thread may call every method, also inside an action.

    Example:
        >>> from hwheel import sched
        >>> now = [0]
        >>> scheduler = sched.scheduler(lambda: now[0], lambda delay: now.append(now.pop() + delay))
        >>> event = scheduler.enter(3600, 1, print, ("an hour later",))
        >>> scheduler.run()
        an hour later
    """

    # Locking: _lock guards _keys and the sequence numbers. Comparisons of times and timefunc() run under it, as in the
    # standard library; actions and delay functions do not. It is reentrant, because signal handlers may use a
    # scheduler.
    #
    # _events changes only by atomic operations, and cancel() takes no lock: the thread that pops an event out of
    # _events owns it, in cancel() or in run(). Keys without an event are harmless.
    #
    # No wake-up is lost, not even from a signal handler in the middle of run(). run() registers as a sleeper before it
    # checks the queue again. It notes the event that it waits for before it checks that the event is still pending.
    # enter() and cancel() first change the queue and then wake the sleepers. Each sleeper has a lock, which remembers
    # the wake-up.

    def __init__(
        self, timefunc: Callable[[], Any] = _time.monotonic, delayfunc: Callable[[Any], object] = _sleep
    ) -> None:
        self.timefunc = timefunc
        self.delayfunc = delayfunc
        self._lock = RLock()
        # For each run() that waits: a lock, released to make run() check the queue again, and the number of its event.
        self._sleepers: dict[Any, int | None] = {}
        self._sequence = count()
        self._events: dict[int, Event] = {}  # the pending events, by sequence number
        self._keys: list[_Key] = []  # a heap, with a key for each pending event and for some cancelled ones
        follow_process(self)

    def enterabs(
        self,
        time: Any,
        priority: Any,
        action: Callable[..., object],
        argument: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Event:
        """Enter an event: at `time`, run() calls ``action(*argument, **kwargs)``.

        Returns:
            The event, for ``cancel()``.

        Raises:
            TypeError: `time` or `priority` cannot be compared with those in the queue. The queue is unchanged.
            ValueError: `time` is not equal to itself, like NaN, so it has no place in any order.

        O(log n). Thread-safe.

        Example:
            >>> import time
            >>> from hwheel import sched
            >>> scheduler = sched.scheduler()
            >>> event = scheduler.enterabs(time.monotonic() + 0.01, 1, print, ("hello",))
            >>> scheduler.run()
            hello
        """
        if time != time:
            raise ValueError(f"time must not be {time!r}")
        number = None
        try:
            with self._lock:
                if len(self._keys) > 2 * len(self._events) + _MIN_REBUILD_KEYS:
                    self._rebuild()
                number = next(self._sequence)
                event = Event(time, priority, number, action, argument, {} if kwargs is None else kwargs)
                key = (time, priority, number)
                try:
                    heapq.heappush(self._keys, key)
                except BaseException:
                    self._rebuild()
                    raise
                self._events[number] = event
                is_first = self._sleepers and self._keys and self._keys[0] is key
            if is_first:
                self._wake()
            return event
        except BaseException:
            self._events.pop(number, None)  # type: ignore[arg-type]  # the caller has no event to cancel
            raise

    def enter(
        self,
        delay: Any,
        priority: Any,
        action: Callable[..., object],
        argument: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Event:
        """Enter an event at ``timefunc() + delay``. See enterabs().

        Example:
            >>> from hwheel import sched
            >>> scheduler = sched.scheduler()
            >>> event = scheduler.enter(0.01, 1, print, ("hello",))
            >>> scheduler.run()
            hello
        """
        return self.enterabs(self.timefunc() + delay, priority, action, argument, kwargs)

    def cancel(self, event: Event) -> None:
        """Remove the event, and release its action and arguments at once.

        Raises:
            ValueError: This event is not in the queue: it has run, is running, or was cancelled.

        O(1). Thread-safe.

        Example:
            >>> from hwheel import sched
            >>> scheduler = sched.scheduler()
            >>> event = scheduler.enter(30, 1, print, ("no answer",))
            >>> scheduler.cancel(event)
            >>> scheduler.run()
        """
        try:
            number = event.sequence
        except AttributeError:
            raise ValueError(f"not an event: {event!r}") from None
        events = self._events
        try:
            if events.get(number) is not event or events.pop(number, None) is None:
                raise ValueError("the event is not in the queue")
            if self._sleepers and number in [*self._sleepers.values()]:
                self._wake()
        except BaseException:
            self._wake()  # Ctrl-C may have come right after the event was removed
            raise

    def empty(self) -> bool:
        """Return True if no event is pending. O(1).

        Example:
            >>> from hwheel import sched
            >>> scheduler = sched.scheduler()
            >>> event = scheduler.enter(30, 1, print, ("no answer",))
            >>> scheduler.empty()
            False
        """
        return not self._events

    def run(self, blocking: bool = True) -> Any:
        """Run the events, each at its time, until the queue is empty.

        An exception in an action ends run(). The event of this action is gone; all others are still in the queue, and
        run() can be called again. If Ctrl-C interrupts run(), an event is gone only if its action has begun.

        Args:
            blocking: False: run only the events whose time has come.

        Returns:
            With ``blocking=False``, the delay until the next event, or None if there is no event.

        O(log n) for each event.

        Example:
            >>> from hwheel import sched
            >>> scheduler = sched.scheduler(lambda: 100)
            >>> event = scheduler.enterabs(90, 1, print, ("overdue",))
            >>> event = scheduler.enterabs(130, 1, print, ("later",))
            >>> scheduler.run(blocking=False)
            overdue
            30
        """
        delayfunc = self.delayfunc
        timefunc = self.timefunc
        sleeper = None
        try:
            while True:
                with self._lock:
                    event = self._first()
                    if event is None:
                        return None
                    now = timefunc()
                    delay = event.time - now if event.time > now else None
                number = event.sequence
                if delay is None:
                    # No Ctrl-C can come between this `del` and the action: CPython checks at calls and in loops.
                    try:
                        del self._events[number]
                    except KeyError:
                        continue  # another thread has just cancelled or run the event
                    event.action(*event.argument, **event.kwargs)
                    event = None
                    delayfunc(0)  # give other threads a turn
                    continue
                event = None  # so that cancel() releases the event while this run() waits
                if not blocking:
                    return delay
                if delayfunc is not _sleep:
                    delayfunc(delay)
                elif sleeper is None:
                    sleeper = threading.Lock()
                    sleeper.acquire()
                    self._sleepers[sleeper] = None
                else:
                    self._sleepers[sleeper] = number
                    if number in self._events:
                        sleeper.acquire(timeout=min(float(delay), threading.TIMEOUT_MAX))
                    self._sleepers.pop(sleeper, None)
                    sleeper = None
        finally:
            self._sleepers.pop(sleeper, None)

    @property
    def queue(self) -> list[Event]:
        """The pending events, as a list in the order in which they will run. O(n log n)."""
        with self._lock:
            return sorted([*self._events.values()])

    def _first(self) -> Event | None:
        """Return the next event, without removing it. Drop the keys of cancelled events."""
        while self._keys:
            event = self._events.get(self._keys[0][2])
            if event is not None:
                return event
            try:
                key = heapq.heappop(self._keys)
                if key[2] in self._events:  # a signal handler has just entered an earlier event
                    heapq.heappush(self._keys, key)
            except BaseException:  # a comparison failed, or was interrupted
                self._rebuild()
                raise
        return None

    def _wake(self) -> None:
        """Make each run() that waits check the queue again. Call this after a change."""
        for sleeper in [*self._sleepers]:
            with contextlib.suppress(RuntimeError):  # the lock is free: this run() is awake already
                sleeper.release()
            self._sleepers.pop(sleeper, None)

    def _after_fork_in_child(self) -> None:
        """Keep the events. Another thread may have held the lock at the fork, in the middle of a change of the heap."""
        if self._lock._renew():
            self._rebuild()

    def _at_exit(self) -> None:
        """Do nothing: the caller of run() waits for the events."""

    def _rebuild(self) -> None:
        """Rebuild the heap from the pending events."""
        self._keys = [(event.time, event.priority, number) for number, event in [*self._events.items()]]
        heapq.heapify(self._keys)
