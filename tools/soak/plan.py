"""How much a soak asks for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """An operation is an add, or an end: a run, a cancel, a task that comes back."""

    seconds: float = 3600
    pending: int = 1_000_000
    operations_per_s: int = 200_000
    seed: int = 1
    jump_every_s: float = 3
    fork_every_s: float = 5
    signal_every_s: float = 0.02

    @property
    def tasks_per_s(self) -> float:
        """Each has two operations at least."""
        return self.operations_per_s / 2

    @property
    def warm_up_s(self) -> float:
        """Until then more and more is pending, and memory is taken that others will use again."""
        return max(0.3 * self.seconds, 4 * self.life_s)

    @property
    def life_s(self) -> float:
        """How old a task gets before it is cancelled. Some have run by then, so it is more than the mean."""
        return 1.25 * self.pending / self.tasks_per_s
