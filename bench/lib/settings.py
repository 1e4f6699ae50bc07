"""The amount of work of a run: full, quick (QUICK=1), or tiny (a test)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Counts and seconds of one run."""

    name: str
    sizes: tuple[int, ...]  # pending timers
    rounds: int
    memory_timers: int
    wheel_timers: int  # for the table of wheel sizes
    pause_timers: int  # that cascade while another thread adds; not few, because a short cascade ends too soon
    all_entries: int  # that one operation visits
    lateness_rate: int  # timers a second
    lateness_s: float  # of each round
    lateness_rounds: int
    slack_connections: int
    slack_s: float  # for each slack
    container_entries: int
    thread_pairs: int  # of add and cancel, in each thread


# fmt: off
FULL = Settings(
    "full", sizes=(1_000, 10_000, 100_000, 1_000_000, 10_000_000), rounds=5, memory_timers=1_000_000,
    wheel_timers=1_000_000, pause_timers=1_000_000, all_entries=1_000_000,
    lateness_rate=50_000, lateness_s=4.0, lateness_rounds=5,
    slack_connections=10_000, slack_s=10.0, container_entries=1_000_000, thread_pairs=500_000,
)
QUICK = Settings(
    "quick", sizes=(1_000, 10_000, 100_000), rounds=3, memory_timers=50_000,
    wheel_timers=200_000, pause_timers=200_000, all_entries=200_000,
    lateness_rate=50_000, lateness_s=1.0, lateness_rounds=3,
    slack_connections=10_000, slack_s=3.0, container_entries=100_000, thread_pairs=200_000,
)
TINY = Settings(
    "tiny", sizes=(100, 200), rounds=2, memory_timers=500,
    wheel_timers=2_000, pause_timers=1_000_000, all_entries=1_000,
    lateness_rate=500, lateness_s=1.0, lateness_rounds=1,
    slack_connections=500, slack_s=0.5, container_entries=500, thread_pairs=1_000,
)
# fmt: on

ALL = {settings.name: settings for settings in (FULL, QUICK, TINY)}
