"""What a timer counts."""

from typing import NamedTuple


class Lateness(NamedTuple):
    """How long after its deadline a timer was handed out to be run, in ms: median, 99th percentile (both within 6 %)
    and maximum, since the timer was made.

    A timer of a batch does not keep its deadline: it counts from the end of its tick, which is the same with a tick of
    1 ms."""

    p50: float
    p99: float
    max: float


Lateness.__module__ = "hwheel.types"


class TimerStats(NamedTuple):
    """The counters of a timer at one moment; a batch counts as its timers.

    added == expired + cancelled + pending + what close() returned.

    cascaded: how often an entry moved down a level. wakeups: how often the reaper woke up. levels: how many levels the
    wheel has. lateness: see Lateness. missed: how many of what has expired were not run, because they were later than
    their max_lateness.
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
