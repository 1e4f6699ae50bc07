"""call_every() for coroutines, on any event loop."""

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Generator
from contextvars import Context, copy_context
from random import SystemRandom
from typing import Any, Literal, Protocol, Self, TypeVarTuple, cast

from hwheel_core import ceil_milliseconds

_Ts = TypeVarTuple("_Ts")
MISSED_TICKS = ("skip", "burst", "delay")


class Source(Protocol):
    """A source of random numbers, such as random.Random."""

    def random(self) -> float:
        """Return a float from 0 to 1."""
        ...


class PeriodicCall:
    """A periodic call, as returned by ``call_every()``. Do not instantiate this class directly.

    ``await`` waits until the periodic call is cancelled and its current run has ended. To end it, use
    ``beat.cancel(); await beat``, or ``async with call_every(...)``, which does both when the block ends.

    Not thread-safe, as in asyncio: use it in the loop's thread.
    """

    __module__ = "hwheel.asyncio"

    __slots__ = ("__weakref__", "_args", "_cancelled", "_context", "_function", "_grid", "_handle", "_loop",
                 "_max_lateness", "_missed", "_over", "_run", "_when")  # fmt: skip

    _handle: asyncio.TimerHandle | None
    _run: "asyncio.Task[None] | None"

    def __init__(
        self,
        function: Callable[..., object],
        args: tuple[Any, ...],
        grid: "Grid",
        max_lateness: float | None,
        context: Context,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._function, self._args, self._context = function, args, context
        self._grid = grid
        self._max_lateness = math.inf if max_lateness is None else max_lateness
        self._cancelled, self._missed, self._run = False, 0, None
        self._over = self._loop.create_future()
        grid.begin(self._loop.time())
        self._arm()

    def cancel(self) -> bool:
        """Start no further run, and cancel the current run, unless that run is the caller.

        Returns:
            False if the periodic call was already cancelled.

        Example:
            >>> import asyncio
            >>> from hwheel.asyncio import call_every
            >>> async def main():
            ...     beat = call_every(30, print, "beat")
            ...     return beat.cancel(), beat.cancel()
            >>> asyncio.run(main())
            (True, False)
        """
        if self._cancelled:
            return False
        self._cancelled = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._run is None:
            self._end()
        elif not self._is_called_by_run():
            self._run.cancel()
        return True

    @property
    def cancelled(self) -> bool:
        """True once the periodic call is cancelled. The last run may still be ending."""
        return self._cancelled

    @property
    def missed(self) -> int:
        """The number of runs skipped because they were later than ``max_lateness``."""
        return self._missed

    def __await__(self) -> Generator[Any, None, None]:
        if self._is_called_by_run():
            raise RuntimeError("a run of call_every cannot wait for its own end")
        return asyncio.shield(self._over).__await__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.cancel()
        await self

    def __repr__(self) -> str:
        state = "cancelled" if self._cancelled else "pending" if self._run is None else "running"
        return f"<PeriodicCall {state}, every {self._grid.interval:g} s, {self._function!r}>"

    def _is_called_by_run(self) -> bool:
        """Return True if the current run makes this call."""
        try:
            return self._run is not None and asyncio.current_task() is self._run
        except RuntimeError:
            return False

    def _arm(self) -> None:
        jitter, error = self._grid.draw_jitter()
        self._when = self._grid.next(self._loop.time(), jitter)
        self._handle = self._loop.call_at(self._when, self._due)
        if error is not None:
            self._report("The source of random numbers failed", error)

    def _due(self) -> None:
        now = self._loop.time()
        if now < self._when:  # asyncio runs handles early by its clock resolution, uvloop by up to 1 ms
            self._handle = self._loop.call_at(self._when, self._due)
            return
        self._handle = None
        if now - self._when > self._max_lateness:
            self._missed += 1
            self._arm()
            return
        self._run = self._loop.create_task(self._one_run(), context=self._context.copy())
        self._run.add_done_callback(self._ended)

    async def _one_run(self) -> None:
        self._run = asyncio.current_task()  # an eager task factory runs this before create_task() returns
        result = self._function(*self._args)
        if inspect.isawaitable(result):
            await result

    def _ended(self, run: "asyncio.Task[None]") -> None:
        self._run = None
        if run.cancelled():
            # If other code cancels the run, as asyncio.run() does at its end, the periodic call ends.
            self._cancelled = self._cancelled or run.cancelling() > 0
        else:
            error = run.exception()
            if error is not None and not isinstance(error, (KeyboardInterrupt, SystemExit)):  # raised by the loop
                self._report("Exception in a run of call_every", error, task=run)
        if self._cancelled:
            self._end()
        else:
            self._arm()

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _report(self, message: str, error: BaseException, **more: Any) -> None:
        self._loop.call_exception_handler({"message": f"{message}: {self!r}", "exception": error, **more})


class Grid:
    """The deadlines of a call_every: the start plus multiples of the interval, so that they do not drift."""

    def __init__(self, interval: float, missed_ticks: str, jitter: float, random: Callable[[], float] | None) -> None:
        self.interval, self._missed_ticks, self._jitter, self._random = interval, missed_ticks, jitter, random

    def begin(self, now: float) -> None:
        """Start the grid again: its first time is one interval after `now`."""
        self._start, self._count = now, 0

    def draw_jitter(self) -> tuple[float, BaseException | None]:
        """Return (the jitter of the next run in seconds, None), or (0.0, the error of the source)."""
        if self._random is None:
            return 0.0, None
        try:
            fraction = self._random()
            if not isinstance(fraction, float) or not 0 <= fraction <= 1:
                raise ValueError(f"random() must return a float from 0 to 1, got {fraction!r}")
            return fraction * self._jitter, None
        except Exception as error:
            return 0.0, error

    def next(self, now: float, jitter: float) -> float:
        """Return the next deadline, which is the next time of the grid plus the jitter of this run."""
        if self._missed_ticks == "delay":
            self.begin(now)
        self._count += 1
        if self._missed_ticks == "skip" and self._time() + jitter <= now:
            self._count += max(0, math.floor((now - self._time()) / self.interval))
            while self._time() <= now:
                self._count += 1
        return self._time() + jitter

    def _time(self) -> float:
        return self._start + self._count * self.interval


def call_every(
    interval: float,
    function: Callable[[*_Ts], Awaitable[object] | None],
    *args: *_Ts,
    missed_ticks: Literal["skip", "burst", "delay"] = "skip",
    jitter: float = 0,
    random: Source | None = None,
    max_lateness: float | None = None,
    context: Context | None = None,
) -> PeriodicCall:
    """Await ``function(*args)`` every ``interval`` seconds on the running loop, until cancelled.

    The first run starts after one interval. Runs follow a grid that does not drift; they are never early and never
    overlap. Each run is an asyncio.Task. An exception in a run goes to the loop's exception handler, and the next
    run starts as scheduled.

    Args:
        interval: Seconds between two runs; positive.
        function: A coroutine function, or a plain function.
        missed_ticks: What to do with deadlines that pass during a long run. "skip": drop them. "burst": make up for
            them, one run right after the other. "delay": start a new grid when the run ends.
        jitter: The longest random delay of each run in seconds. The grid does not move.
        random: The source of the jitter: an object with a method ``random()``. Default: the system's.
        max_lateness: Skip a run that would start more than this many seconds late, and count it in ``missed``.
        context: Each run gets a copy of this contextvars.Context. Default: a copy of the current one.

    Returns:
        A PeriodicCall, to cancel or to await.

    Raises:
        RuntimeError: No event loop is running.
        TypeError: An argument has the wrong type.
        ValueError: ``interval`` or ``max_lateness`` is not positive, or another argument is out of range.
        OverflowError: An argument is too large.

    O(1) per run on a wheel loop. Not thread-safe, as in asyncio.

    >>> import asyncio
    >>> from hwheel.asyncio import call_every
    >>> async def main():
    ...     async def beat():
    ...         print("beat")
    ...     async with call_every(0.2, beat):
    ...         await asyncio.sleep(0.5)
    >>> asyncio.run(main())
    beat
    beat
    """
    if not callable(function):
        raise TypeError(f"function must be callable, got {type(function).__name__}")
    seconds = _seconds("interval", interval)
    if seconds == 0:
        raise ValueError(f"interval must be positive, got {interval!r}")
    if missed_ticks not in MISSED_TICKS:
        raise ValueError(f'missed_ticks must be "skip", "burst" or "delay", got {missed_ticks!r}')
    draw = getattr(SystemRandom() if random is None else random, "random", None)
    if not callable(draw):
        raise TypeError(f"random must have a method random(), as random.Random does, but is a {type(random).__name__}")
    longest_jitter = _seconds("jitter", jitter)
    latest = None if max_lateness is None else _seconds("max_lateness", max_lateness)
    if latest == 0:
        raise ValueError("max_lateness must be positive: no run starts exactly at its deadline")
    if context is not None and not isinstance(context, Context):
        raise TypeError(f"context must be a contextvars.Context, got {context!r}")
    grid = Grid(seconds, missed_ticks, longest_jitter, cast("Callable[[], float]", draw) if longest_jitter else None)
    return PeriodicCall(function, args, grid, latest, copy_context() if context is None else context)


def _seconds(name: str, value: Any) -> float:
    """Return a non-negative number of seconds. Less than half a nanosecond becomes zero, as in a timer.

    With a shorter interval, the deadlines of a grid would never advance.
    """
    is_positive = ceil_milliseconds(value, name) != 0
    seconds = float(value)
    if seconds < 0:
        raise ValueError(f"{name} must not be negative, but is {value!r}")
    return seconds if is_positive else 0.0
