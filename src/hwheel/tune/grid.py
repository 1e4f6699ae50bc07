"""The ticks, wheel sizes and timeouts that a log is replayed with."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hwheel_core import DEFAULT_WHEEL_SIZE, place

TICKS = (1, 2, 5, 10, 20, 50, 100)
WHEEL_SIZES = (20, 64, 256, 512, 1024)


@dataclass(frozen=True)
class Grid:
    """Every tick (in ms) with every wheel size and every timeout (in ms, for all timers; None: each its own)."""

    ticks: tuple[int, ...] = TICKS
    wheel_sizes: tuple[int, ...] = WHEEL_SIZES
    timeouts: tuple[int | None, ...] = (None,)

    @classmethod
    def checked(cls, ticks: Sequence[int], wheel_sizes: Sequence[int], timeouts: Sequence[int | None]) -> "Grid":
        """Raises TypeError and ValueError for what no wheel can have."""
        for name, values in (("ticks", ticks), ("wheel_sizes", wheel_sizes), ("timeouts", timeouts)):
            if not values or isinstance(values, str):
                raise ValueError(f"{name} must have at least one item")
        for tick_ms in ticks:
            place(array("q"), 0, tick_ms, DEFAULT_WHEEL_SIZE)  # raises what is to be raised
        for wheel_size in wheel_sizes:
            place(array("q"), 0, 1, wheel_size)
        for timeout_ms in timeouts:
            if timeout_ms is not None and (isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int)):
                raise TypeError(f"a timeout must be an int of milliseconds or None, not {timeout_ms!r}")
        return cls(tuple(ticks), tuple(wheel_sizes), tuple(timeouts))

    def __iter__(self) -> Iterator[tuple[int, int, int | None]]:
        for timeout_ms in self.timeouts:
            for tick_ms in self.ticks:
                for wheel_size in self.wheel_sizes:
                    yield tick_ms, wheel_size, timeout_ms

    def __len__(self) -> int:
        return len(self.ticks) * len(self.wheel_sizes) * len(self.timeouts)
