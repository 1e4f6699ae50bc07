"""What a run on one engine comes to, in the figures of the table."""

from typing import NamedTuple

from hwheel.cli.demo.drive import Run


class Lateness(NamedTuple):
    """How long after its deadline a callback ran, in ms, as the callback saw it."""

    p50: float
    p99: float
    max: float


class Outcome(NamedTuple):
    """One column of the table. None: there was nothing to measure it by."""

    engine: str
    timers: int
    speed: float  # how much faster than the workload as it was given
    peak_pending: int
    adds_a_second: float | None  # one after the other, nothing in between
    cancels_a_second: float | None
    achieved_rate: float | None  # in the run
    cancelled: int
    expired: int
    lateness: Lateness | None
    bytes_a_timer: float


def outcome_of(run: Run, speed: float, bytes_a_timer: float) -> Outcome:
    """The figures of a run."""
    timers = len(run.deadlines)
    return Outcome(
        engine=run.engine,
        timers=timers,
        speed=speed,
        peak_pending=run.peak_pending,
        adds_a_second=_per_second(timers, run.adding_s),
        cancels_a_second=_per_second(run.cancel_calls, run.cancelling_s),
        achieved_rate=_per_second(timers, run.add_phase_s),
        cancelled=len(run.cancels),
        expired=len(run.runs),
        lateness=lateness_of(run),
        bytes_a_timer=bytes_a_timer,
    )


def lateness_of(run: Run) -> Lateness | None:
    """The median, the 99th percentile and the maximum (nearest rank) of all callbacks of a run."""
    late_ms = sorted((when - run.deadlines[timer]) * 1000.0 for timer, when in run.runs)
    if not late_ms:
        return None
    return Lateness(late_ms[_rank(50, len(late_ms))], late_ms[_rank(99, len(late_ms))], late_ms[-1])


def _rank(percent: int, count: int) -> int:
    """The index of a percentile: the smallest value that so many percent are not above."""
    return max(0, -(-percent * count // 100) - 1)


def _per_second(count: int, seconds: float) -> float | None:
    return count / seconds if count and seconds > 0 else None
