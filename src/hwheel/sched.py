"""hwheel.sched: the standard module `sched` with a cancel in O(1), and a run() that notices what other threads do.

Why this is a heap and no wheel: a wheel needs times that are numbers, to divide them by its tick. Here a time is
whatever `timefunc` returns, as long as times can be compared and subtracted: floats, Fractions, datetimes. And events
of one time run in the order of their priority, which again can be anything that compares. A heap asks for no more than
that, and so gives exactly the standard order. A cancel need not be linear for that: what is pending stands in a
dictionary, the heap has only keys, and the key of a cancelled event stays behind until it surfaces, or until most keys
are such.

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
_FEW_KEYS = 64


class scheduler:
    """scheduler(timefunc=time.monotonic, delayfunc=time.sleep)

    A queue of events, and run(), which waits for each and calls its action. Events run in the order of their time, then
    of their priority (the lower first), then in the order in which they were entered. The face is that of the standard
    library's sched.scheduler; docs/drop_in.md says what differs.

    Arguments:
        timefunc: gives the time. Times are anything that can be compared and subtracted.
        delayfunc: called with a difference of times, or 0, to wait. With time.sleep, run() waits in such a way that it
            notices an earlier event, or the cancel of the one it waits for, from another thread. Any other function is
            called just as the standard library calls it.

    Thread-safety: every method may be called from any thread, and inside actions.

    >>> from hwheel import sched
    >>> now = [0]
    >>> scheduler = sched.scheduler(lambda: now[0], lambda delay: now.append(now.pop() + delay))
    >>> event = scheduler.enter(3600, 1, print, ("an hour later",))
    >>> scheduler.run()
    an hour later
    """

    # Locking: _lock guards _keys and the sequence numbers. Comparisons of times and timefunc() run under it, as in the
    # standard library; actions and delay functions do not. It is reentrant: signal handlers may use the scheduler.
    #
    # _events is changed by operations that are atomic in themselves, and cancel() takes no lock: whoever pops an event
    # out of it has it, cancel() or run(). Keys without an event do no harm.
    #
    # No wake-up is lost, also none of a signal handler that comes anywhere in run(): that enters itself among the
    # sleepers, looks at the queue once more, writes down which event it waits for, and looks whether that is still
    # there. Who enters an event or cancels one does so first, and then wakes the sleepers, each by a lock that
    # remembers it.

    def __init__(
        self, timefunc: Callable[[], Any] = _time.monotonic, delayfunc: Callable[[Any], object] = _sleep
    ) -> None:
        self.timefunc = timefunc
        self.delayfunc = delayfunc
        self._lock = RLock()
        # For each run() that waits: a lock, which is released when it has to look again, and the event that it awaits.
        self._sleepers: dict[Any, int | None] = {}
        self._sequence = count()
        self._events: dict[int, Event] = {}  # what is pending, by sequence number
        self._keys: list[_Key] = []  # a heap; it has a key for each of _events, and for some that are gone
        follow_process(self)

    def enterabs(
        self,
        time: Any,
        priority: Any,
        action: Callable[..., object],
        argument: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Event:
        """Enters an event: at `time`, run() calls action(*argument, **kwargs). Returns the event, for cancel().

        Raises:
            TypeError: time or priority cannot be compared with those in the queue, which stays as it was.
            ValueError: time is not equal to itself, as NaN is not: it has no place in any order.

        Runtime complexity: O(log n).
        """
        if time != time:
            raise ValueError(f"time must not be {time!r}")
        number = None
        try:
            with self._lock:
                if len(self._keys) > 2 * len(self._events) + _FEW_KEYS:
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
            self._events.pop(number, None)  # type: ignore[arg-type]  # who does not get the event has not entered it
            raise

    def enter(
        self,
        delay: Any,
        priority: Any,
        action: Callable[..., object],
        argument: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Event:
        """Enters an event `delay` from now: at timefunc() + delay. Otherwise as enterabs()."""
        return self.enterabs(self.timefunc() + delay, priority, action, argument, kwargs)

    def cancel(self, event: Event) -> None:
        """Removes the event. It, and so its action and arguments, are released at once.

        Raises:
            ValueError: this very event is not in the queue: it has run, runs just now, or was cancelled.

        Runtime complexity: O(1).
        """
        try:
            number = event.sequence
        except AttributeError:
            raise ValueError("this is no event") from None
        events = self._events
        try:
            if events.get(number) is not event or events.pop(number, None) is None:
                raise ValueError("the event is not in the queue")
            if self._sleepers and number in [*self._sleepers.values()]:
                self._wake()
        except BaseException:
            self._wake()  # it may have been interrupted right after it took the event out
            raise

    def empty(self) -> bool:
        """Whether nothing is pending. O(1)."""
        return not self._events

    def run(self, blocking: bool = True) -> Any:
        """Runs events, each at its time, until none is left.

        An exception in an action ends run(), which may be called again: the event is gone, all others are there. Where
        run() is interrupted, by Ctrl-C for instance, an event is gone only if its action has begun.

        Arguments:
            blocking: False: run what is due already, and return.
        Returns:
            With blocking=False, how long it is until the next event; None if there is none.

        Runtime complexity: O(log n) an event.
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
                    # Python looks for signals at calls and in loops: not between this `del` and the action.
                    try:
                        del self._events[number]
                    except KeyError:
                        continue  # cancelled just now
                    event.action(*event.argument, **event.kwargs)
                    event = None
                    delayfunc(0)  # other threads have their turn
                    continue
                event = None  # while this waits, only the queue holds on to the event
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
        """The pending events, a list in the order in which they will run. O(n log n)."""
        with self._lock:
            return sorted([*self._events.values()])

    def _first(self) -> Event | None:
        """The event to run next, left where it is. Drops keys that have no event any more."""
        while self._keys:
            event = self._events.get(self._keys[0][2])
            if event is not None:
                return event
            try:
                key = heapq.heappop(self._keys)
                if key[2] in self._events:  # a signal handler has just entered something earlier
                    heapq.heappush(self._keys, key)
            except BaseException:  # a comparison failed, or was interrupted
                self._rebuild()
                raise
        return None

    def _wake(self) -> None:
        """Whoever sleeps in run() looks again. To be called after what there is to see."""
        for sleeper in [*self._sleepers]:
            with contextlib.suppress(RuntimeError):  # woken already
                sleeper.release()
            self._sleepers.pop(sleeper, None)

    def _after_fork_in_child(self) -> None:
        """The events are the child's, too. The lock may have been held by a thread that is not, in the middle of a
        change of the heap."""
        if self._lock._renew():
            self._rebuild()

    def _at_exit(self) -> None:
        """Nothing: who calls run() waits for the events."""

    def _rebuild(self) -> None:
        """Makes the heap anew, of what is pending alone."""
        self._keys = [(event.time, event.priority, number) for number, event in [*self._events.items()]]
        heapq.heapify(self._keys)
