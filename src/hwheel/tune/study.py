"""A log replayed on a whole grid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hwheel.logs.columns import LogError
from hwheel.replay import Log
from hwheel.replay.costs import ReplayCosts
from hwheel.tune.curves import Curves
from hwheel.tune.grid import Grid


@dataclass(frozen=True)
class Study:
    """What a log costs with each tick, wheel size and timeout of a grid, in the grid's order."""

    costs: tuple[ReplayCosts, ...]
    curves: Curves | None = None
    """Of the first point of the grid; None if they were not asked for."""
    dropped: int = 0
    """Rows that the log's recorder had no room for."""

    @property
    def timers(self) -> int:
        return self.costs[0].timers

    @property
    def wheels(self) -> int:
        """Into how many parts the log was divided, each replayed on a wheel of its own."""
        return self.costs[0].wheels

    def at(self, tick_ms: int, wheel_size: int, timeout_ms: int | None = None) -> ReplayCosts:
        """The costs at a point of the grid. KeyError: it is none."""
        for costs in self.costs:
            if (costs.tick_ms, costs.wheel_size, costs.timeout_ms) == (tick_ms, wheel_size, timeout_ms):
                return costs
        raise KeyError(f"tick {tick_ms} ms, wheel size {wheel_size}, timeout {timeout_ms} ms")

    @staticmethod
    def merged(parts: Sequence["Study"]) -> "Study":
        """The sum over parts of a log, each of which had a wheel of its own; parts without timers are left out.
        LogError: there is no timer in any."""
        full = [part for part in parts if part.timers]
        if not full:
            raise LogError("there are no timers in the log")
        curves = [part.curves for part in full if part.curves is not None]
        return Study(
            tuple(map(ReplayCosts.merged, zip(*(part.costs for part in full), strict=True))),
            Curves.merged(curves) if curves else None,
            sum(part.dropped for part in parts),
        )


def study(
    log: Log, grid: Grid, *, curves: bool = False, dropped: int = 0, on_point: Callable[[], object] = lambda: None
) -> Study:
    """Replays a log, on one wheel, at every point of the grid; on_point is called after each."""
    costs: list[ReplayCosts] = []
    found = None
    for tick_ms, wheel_size, timeout_ms in grid:
        replayed = log.replay(tick_ms=tick_ms, wheel_size=wheel_size, timeout_ms=timeout_ms)
        if curves and not costs and len(log):
            found = Curves.of(log, replayed)
        costs.append(replayed.costs)
        on_point()
    return Study(tuple(costs), found, dropped)
