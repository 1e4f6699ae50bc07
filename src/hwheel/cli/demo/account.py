"""Is every timer accounted for exactly once?"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Account(NamedTuple):
    """lost: neither ran nor was cancelled. doubled: ran twice, was cancelled twice, or both. early: ran before its
    deadline. ran, cancelled: how many timers did, and were."""

    timers: int
    ran: int
    cancelled: int
    lost: int
    doubled: int
    early: int

    @property
    def is_clean(self) -> bool:
        """True if nothing went wrong."""
        return not (self.lost or self.doubled or self.early)


def account(deadlines: Sequence[float], runs: Iterable[tuple[int, float]], cancels: Iterable[int]) -> Account:
    """Counts what became of timers 0, 1, 2, ...

    Arguments:
        deadlines: of each timer.
        runs: (timer, when) for each call of a callback, `when` on the clock of the deadlines.
        cancels: the timer of each cancel that said it came in time.
    """
    times_run: Counter[int] = Counter()
    early = set()
    for timer, when in runs:
        times_run[timer] += 1
        if when < deadlines[timer]:
            early.add(timer)
    times_cancelled = Counter(cancels)
    ends = times_run + times_cancelled
    return Account(
        timers=len(deadlines),
        ran=len(times_run),
        cancelled=len(times_cancelled),
        lost=sum(1 for timer in range(len(deadlines)) if timer not in ends),
        doubled=sum(1 for times in ends.values() if times > 1),
        early=len(early),
    )
