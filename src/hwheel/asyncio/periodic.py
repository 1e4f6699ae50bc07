"""call_every for coroutines, on any event loop."""

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Generator
from contextvars import Context, copy_context
from random import SystemRandom
from typing import Any, Literal, Protocol, Self, TypeVarTuple, cast

from hwheel_core import ceil_milliseconds

_Ts = TypeVarTuple("_Ts")
MISSED = ("skip", "burst", "delay")


class Source(Protocol):
    """Of random numbers."""

    def random(self) -> float:
        """From 0 to 1."""
        ...


class PeriodicCall:
    """What `call_every` returns. Not made by hand.

    `await` waits until it is over: cancelled, and the run that was under way has ended. So to end it is
    `beat.cancel(); await beat`, or `async with call_every(...)`, which does both when the block is left. It ends with
    its loop, too; what waits for it then does not.

    Thread-safety: none, as asyncio's: use it in the thread of its loop.
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
        """No run begins any more, and one that is under way is cancelled; but in its own run, that goes on to its end.
        True if this call did it, False if it was cancelled before."""
        if self._cancelled:
            return False
        self._cancelled = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._run is None:
            self._end()
        elif not self._is_here():
            self._run.cancel()
        return True

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled. The last run may not have ended yet."""
        return self._cancelled

    @property
    def missed(self) -> int:
        """How many runs were left out because they would have been later than max_lateness."""
        return self._missed

    def __await__(self) -> Generator[Any, None, None]:
        if self._is_here():
            raise RuntimeError("a run of call_every would wait for itself")
        return asyncio.shield(self._over).__await__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.cancel()
        await self

    def __repr__(self) -> str:
        state = "cancelled" if self._cancelled else "pending" if self._run is None else "running"
        return f"<PeriodicCall {state}, every {self._grid.interval:g} s, {self._function!r}>"

    def _is_here(self) -> bool:
        """Whether this is called in its own run."""
        try:
            return self._run is not None and asyncio.current_task() is self._run
        except RuntimeError:
            return False

    def _arm(self) -> None:
        later, error = self._grid.draw()
        self._when = self._grid.next(self._loop.time(), later)
        self._handle = self._loop.call_at(self._when, self._due)
        if error is not None:
            self._report("A source of random numbers has failed", error)

    def _due(self) -> None:
        now = self._loop.time()
        if now < self._when:  # asyncio's loop runs what is due within the resolution of its clock, uvloop's within a ms
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
        self._run = asyncio.current_task()  # with an eager task factory create_task has not returned yet
        result = self._function(*self._args)
        if inspect.isawaitable(result):
            await result

    def _ended(self, run: "asyncio.Task[None]") -> None:
        self._run = None
        if run.cancelled():
            self._cancelled = self._cancelled or bool(run.cancelling())  # by somebody else: by asyncio.run() at its end
        else:
            error = run.exception()
            if error is not None and not isinstance(
                error, (KeyboardInterrupt, SystemExit)
            ):  # which the loop has raised
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
    """The times of a call_every: a multiple of the interval after the beginning, so that none drifts."""

    def __init__(self, interval: float, missed: str, jitter: float, draw: Callable[[], float] | None) -> None:
        self.interval, self._missed, self._jitter, self._draw = interval, missed, jitter, draw

    def begin(self, now: float) -> None:
        """The first time is an interval from now."""
        self._start, self._count = now, 0

    def draw(self) -> tuple[float, BaseException | None]:
        """How much later than its time the next run is to come; where there is an error, not at all."""
        if self._draw is None:
            return 0.0, None
        try:
            part = self._draw()
            if not isinstance(part, float) or not 0 <= part <= 1:
                raise ValueError(f"random() has to return a float from 0 to 1, not {part!r}")
            return part * self._jitter, None
        except Exception as error:
            return 0.0, error

    def next(self, now: float, later: float) -> float:
        """The next time, by so much later."""
        if self._missed == "delay":
            self.begin(now)
        self._count += 1
        if self._missed == "skip" and self._time() + later <= now:
            self._count += max(0, math.floor((now - self._time()) / self.interval))
            while self._time() <= now:
                self._count += 1
        return self._time() + later

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
    """Awaits `function(*args)` every `interval` seconds on the loop that runs, first in one interval, until cancelled.

    Times stand on a grid and do not drift; no run begins while the one before it goes on, or early. Each run is an
    `asyncio.Task` of its own. An exception in one goes to the loop's exception handler, and does not end it.

    Arguments:
        interval: in seconds, positive.
        function: a coroutine function; or a plain one, whose run is over when it returns.
        missed_ticks: what becomes of the times that a long run misses. "skip" leaves out all, "burst" none, and "delay"
            starts a new grid at its end.
        jitter: each run is later by a random time of at most so many seconds. The grid stays.
        random: where that comes from: whatever has a method random(), a random.Random say. None: the system.
        max_lateness: a run that would begin later than so many seconds is left out, and counted in `missed`.
        context: each run gets a copy of this; None: of the context that this is called in.

    Returns:
        A PeriodicCall, to cancel and to wait for.
    Raises:
        RuntimeError: no event loop runs.
        TypeError, ValueError, OverflowError: an argument is wrong.

    Runtime complexity: O(1) a run on a loop on the wheel.
    Thread-safety: none, as asyncio's.

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
        raise TypeError(f"function must be callable, not {type(function).__name__}")
    seconds = _length("interval", interval)
    if seconds == 0:
        raise ValueError(f"interval must be positive, not {interval!r}")
    if missed_ticks not in MISSED:
        raise ValueError(f'missed_ticks must be "skip", "burst" or "delay", got {missed_ticks!r}')
    draw = getattr(SystemRandom() if random is None else random, "random", None)
    if not callable(draw):
        raise TypeError(
            f"random must have a method random(), as random.Random has, but is of type {type(random).__name__}"
        )
    length = _length("jitter", jitter)
    most = None if max_lateness is None else _length("max_lateness", max_lateness)
    if most == 0:
        raise ValueError("max_lateness must be positive: nothing runs at the very nanosecond of its deadline")
    if context is not None and not isinstance(context, Context):
        raise TypeError(f"context must be a contextvars.Context, not {context!r}")
    grid = Grid(seconds, missed_ticks, length, cast("Callable[[], float]", draw) if length else None)
    return PeriodicCall(function, args, grid, most, copy_context() if context is None else context)


def _length(name: str, value: Any) -> float:
    """A length of time in seconds that is not negative. Less than half a nanosecond is none, as it is to a timer: so
    fine a grid would never get past the time that it is."""
    is_some = ceil_milliseconds(value, name) != 0
    seconds = float(value)
    if seconds < 0:
        raise ValueError(f"{name} must not be negative, but is {value!r}")
    return seconds if is_some else 0.0
