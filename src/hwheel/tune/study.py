"""A log replayed with a grid of ticks, wheel sizes, and timeouts."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hwheel.logs.columns import LogError
from hwheel.replay import Log
from hwheel.replay.costs import ReplayCosts
from hwheel.tune.curves import Curves
from hwheel_core import DEFAULT_WHEEL_SIZE, place

TICKS = (1, 2, 5, 10, 20, 50, 100)
WHEEL_SIZES = (20, 64, 256, 512, 1024)


@dataclass(frozen=True)
class Grid:
    """Every tick (in ms) with every wheel size and every timeout (in ms for all timers; None: their own)."""

    ticks: tuple[int, ...] = TICKS
    wheel_sizes: tuple[int, ...] = WHEEL_SIZES
    timeouts: tuple[int | None, ...] = (None,)

    @classmethod
    def checked(cls, ticks: Sequence[int], wheel_sizes: Sequence[int], timeouts: Sequence[int | None]) -> "Grid":
        """Return a grid. Raise TypeError or ValueError if a value is invalid."""
        for name, values in (("ticks", ticks), ("wheel_sizes", wheel_sizes), ("timeouts", timeouts)):
            if not values or isinstance(values, str):
                raise ValueError(f"{name} must have at least one item")
        for tick_ms in ticks:
            place(array("q"), 0, tick_ms, DEFAULT_WHEEL_SIZE)  # checks its arguments
        for wheel_size in wheel_sizes:
            place(array("q"), 0, 1, wheel_size)
        for timeout_ms in timeouts:
            if timeout_ms is not None and (isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int)):
                raise TypeError(f"a timeout must be an int of milliseconds or None, got {timeout_ms!r}")
        return cls(tuple(ticks), tuple(wheel_sizes), tuple(timeouts))

    def __iter__(self) -> Iterator[tuple[int, int, int | None]]:
        for timeout_ms in self.timeouts:
            for tick_ms in self.ticks:
                for wheel_size in self.wheel_sizes:
                    yield tick_ms, wheel_size, timeout_ms

    def __len__(self) -> int:
        return len(self.ticks) * len(self.wheel_sizes) * len(self.timeouts)


@dataclass(frozen=True)
class Study:
    """The costs of a log at each point of a grid, in the grid's order."""

    costs: tuple[ReplayCosts, ...]
    curves: Curves | None = None
    """The curves at the first point, if requested."""
    dropped: int = 0
    """The number of timers that the recorder of the log dropped."""

    @property
    def timers(self) -> int:
        return self.costs[0].timers

    @property
    def wheels(self) -> int:
        """The number of parts of the log, each of which was replayed on its own wheel."""
        return self.costs[0].wheels

    def at(self, tick_ms: int, wheel_size: int, timeout_ms: int | None = None) -> ReplayCosts:
        """Return the costs at a point. Raise KeyError if the grid lacks it."""
        for costs in self.costs:
            if (costs.tick_ms, costs.wheel_size, costs.timeout_ms) == (tick_ms, wheel_size, timeout_ms):
                return costs
        raise KeyError(f"tick {tick_ms} ms, wheel size {wheel_size}, timeout {timeout_ms} ms")

    @staticmethod
    def merged(parts: Sequence["Study"]) -> "Study":
        """Return the sum of the parts of a log. Raise LogError if no part has a timer."""
        full = [part for part in parts if part.timers]
        if not full:
            raise LogError("the log has no timers")
        curves = [part.curves for part in full if part.curves is not None]
        return Study(
            tuple(map(ReplayCosts.merged, zip(*(part.costs for part in full), strict=True))),
            Curves.merged(curves) if curves else None,
            sum(part.dropped for part in parts),
        )


def study(
    log: Log, grid: Grid, *, curves: bool = False, dropped: int = 0, on_point: Callable[[], object] = lambda: None
) -> Study:
    """Replay a log on one wheel at every point of the grid. Call ``on_point`` after each point."""
    costs: list[ReplayCosts] = []
    found = None
    for tick_ms, wheel_size, timeout_ms in grid:
        replayed = log.replay(tick_ms=tick_ms, wheel_size=wheel_size, timeout_ms=timeout_ms)
        if curves and not costs and len(log):
            found = Curves.of(log, replayed)
        costs.append(replayed.costs)
        on_point()
    return Study(tuple(costs), found, dropped)
