"""Statistics of a timer."""

from typing import NamedTuple


class Lateness(NamedTuple):
    """The time from the deadlines of tasks to their dispatch, in milliseconds, since the timer was created.

    A timer of a batch does not store its deadline. Its lateness counts from the end of its tick. With a tick of
    1 ms, this is the deadline.

    Attributes:
        p50: Median, exact to 6 %.
        p99: 99th percentile, exact to 6 %.
        max: Maximum.
    """

    p50: float
    p99: float
    max: float


Lateness.__module__ = "hwheel.types"


class TimerStats(NamedTuple):
    """The counters of a timer at one moment. Each timer of a batch counts as one.

    ``added`` is the sum of ``expired``, ``cancelled``, ``pending``, and the number of timers that close() returned.

    Attributes:
        added: Timers that were added.
        expired: Timers that were dispatched.
        cancelled: Timers that were cancelled.
        cascaded: Moves of a timer to a finer level.
        wakeups: Wake-ups of the reaper.
        pending: Timers that are pending.
        levels: Levels of the wheel.
        lateness: See Lateness.
        missed: Expired timers that were not run, because they were later than their ``max_lateness``.
    """

    added: int
    expired: int
    cancelled: int
    cascaded: int
    wakeups: int
    pending: int
    levels: int
    lateness: Lateness
    missed: int


TimerStats.__module__ = "hwheel.types"
