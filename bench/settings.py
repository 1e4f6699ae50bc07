"""How much is measured: everything, a quick look (QUICK=1), or the least that proves that it works (a test)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Counts and seconds of one run."""

    name: str
    sizes: tuple[int, ...]          # pending timers
    rounds: int
    memory_timers: int
    wheel_timers: int               # of the table of wheel sizes, and of the pause
    connections: int                # of the workload
    lateness_rate: int              # timers a second
    lateness_s: float               # whole seconds
    idle_tasks: int
    idle_s: float


FULL = Settings("full", (1_000, 10_000, 100_000, 1_000_000, 10_000_000), 5, 200_000, 1_000_000, 2_000, 50_000, 20.0,
                1_000_000, 10.0)
QUICK = Settings("quick", (1_000, 10_000, 100_000), 3, 50_000, 200_000, 200, 50_000, 3.0, 100_000, 2.0)
TINY = Settings("tiny", (100, 200), 2, 500, 2_000, 5, 500, 1.0, 1_000, 0.1)

ALL = {settings.name: settings for settings in (FULL, QUICK, TINY)}
