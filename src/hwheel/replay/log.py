"""A log of timers, and its replay in virtual time."""

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hwheel.replay.costs import ReplayCosts
from hwheel_core import DEFAULT_WHEEL_SIZE, order_by
from hwheel_core import replay as replay_sorted

FIRED = 0
CANCELLED = 1

NEVER = -(2**63)
"""The value in ends_ms for a timer that was never cancelled."""


@dataclass(frozen=True)
class Replayed:
    """The outcome of each timer, in the order of the log."""

    __module__ = "hwheel.replay"

    outcomes: npt.NDArray[np.int8]
    """FIRED or CANCELLED for each timer."""
    at_ms: npt.NDArray[np.int64]
    """The time of each outcome."""
    costs: ReplayCosts


class Log:
    """Log(starts_ms, timeouts_ms, ends_ms)

    Hold a log of timers, sorted once for any number of replays.

    Args:
        starts_ms: The start of each timer in ms, in any order: an array of int64, or values that convert to one.
        timeouts_ms: The timeouts in ms. A timeout of zero or less expires at once.
        ends_ms: The time of each cancel in ms, or NEVER, or null in an Arrow array. An end before the start counts as
            the start. An end after the expiry has no effect.

    Attributes:
        starts_ms, timeouts_ms, ends_ms: The columns as arrays, in order of the starts. Do not change them.

    Raises:
        TypeError: A column is not one-dimensional, or its values are not integers.
        ValueError: The columns differ in length, or a start is negative or null.
        OverflowError: A value does not fit into 64 bits.

    O(n), or O(n log n) for unsorted starts.

    >>> from hwheel.replay import Log, NEVER
    >>> log = Log(starts_ms=[0, 0, 5], timeouts_ms=[30, 30, 30], ends_ms=[12, NEVER, NEVER])
    >>> replayed = log.replay(tick_ms=10)
    >>> replayed.outcomes.tolist(), replayed.at_ms.tolist()
    ([1, 0, 0], [12, 30, 40])
    >>> replayed.costs.wakeups, replayed.costs.lateness.max
    (2, 5.0)
    """

    __module__ = "hwheel.replay"

    def __init__(self, starts_ms: Any, timeouts_ms: Any, ends_ms: Any) -> None:
        starts = _column(starts_ms, "starts_ms")
        timeouts = _column(timeouts_ms, "timeouts_ms")
        ends = _column(ends_ms, "ends_ms", null=NEVER)
        if not len(starts) == len(timeouts) == len(ends):
            raise ValueError(
                f"the columns must have the same length, got {len(starts)}, {len(timeouts)}, and {len(ends)}"
            )
        if len(starts) and starts.min() < 0:
            raise ValueError(f"starts_ms[{starts.argmin()}] is negative: {starts.min()}")
        self._rows: npt.NDArray[np.int64] | None = None
        if (starts[1:] < starts[:-1]).any():
            self._rows = _order(starts)
            starts, timeouts, ends = starts[self._rows], timeouts[self._rows], ends[self._rows]
        self.starts_ms, self.timeouts_ms, self.ends_ms = starts, timeouts, ends
        cancelled = np.flatnonzero(ends != NEVER)
        self._end_order = cancelled[_order(ends[cancelled])]

    def __len__(self) -> int:
        return len(self.starts_ms)

    def replay(
        self, *, tick_ms: int = 1, wheel_size: int = DEFAULT_WHEEL_SIZE, timeout_ms: int | None = None
    ) -> Replayed:
        """Replay the log on a wheel with this tick and size.

        At each instant, timers fire first, then timers are cancelled, then timers start. As in SystemTimer, a timer
        fires at the first tick at or after its deadline.

        Args:
            tick_ms: As in SystemTimer.
            wheel_size: As in SystemTimer.
            timeout_ms: One timeout for all timers. Default: their own.

        Returns:
            The outcome of each timer, and the costs.

        Raises:
            OverflowError: A deadline does not fit into 64 bits of milliseconds.
            TypeError, ValueError: An argument is invalid, as in SystemTimer.

        O(1) per timer. Releases the GIL.

        Example:
            >>> from hwheel.replay import Log, NEVER
            >>> log = Log(starts_ms=[0, 0], timeouts_ms=[25, 30], ends_ms=[NEVER, 12])
            >>> log.replay(tick_ms=10).at_ms.tolist(), log.replay(tick_ms=1).at_ms.tolist()
            ([30, 12], [25, 12])
        """
        timeouts = self.timeouts_ms
        if timeout_ms is not None:
            if isinstance(timeout_ms, (bool, np.bool_)) or not hasattr(timeout_ms, "__index__"):
                raise TypeError(f"timeout_ms must be an int, got {type(timeout_ms).__name__}")
            timeouts = np.broadcast_to(np.int64(operator.index(timeout_ms)), len(self))
        outcomes, at_ms, found = replay_sorted(
            self.starts_ms, timeouts, self.ends_ms, self._end_order, tick_ms, wheel_size, NEVER
        )
        costs = ReplayCosts.of_one_wheel(tick_ms, wheel_size, timeout_ms, len(self), found)
        return Replayed(
            self._in_log_order(np.frombuffer(outcomes, np.int8)),
            self._in_log_order(np.frombuffer(at_ms, np.int64)),
            costs,
        )

    def _in_log_order(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if self._rows is None:
            return column
        found = np.empty_like(column)
        found[self._rows] = column
        return found


def _order(times_ms: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the stable order, by a radix sort that needs few passes for times of one day."""
    return np.frombuffer(order_by(times_ms), np.int64)


def _column(values: Any, name: str, null: int | None = None) -> npt.NDArray[np.int64]:
    """Return an array of int64, with nulls of Arrow replaced."""
    if hasattr(values, "null_count") and values.null_count:
        if null is None:
            raise ValueError(f"{name} has nulls")
        values = values.fill_null(null)
    column = np.asarray(values)
    if column.ndim != 1 or (len(column) and column.dtype.kind not in "iu"):
        raise TypeError(f"{name} must be one column of integers, got {column.dtype} of shape {column.shape}")
    if column.dtype.kind == "u" and len(column) and column.max() > np.iinfo(np.int64).max:
        raise OverflowError(f"{name} must fit into 64 bits with a sign, got {column.max()}")
    return np.ascontiguousarray(column, dtype=np.int64)
