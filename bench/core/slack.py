"""The effect of slack: wake-ups of a timer with many idle connections that have a heartbeat each."""

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from hwheel import SystemTimer
from lib.figures import show_rows
from lib.settings import Settings

SLACKS_S = (0.0, 0.1, 1.0, 5.0)
HEARTBEAT_S = 60.0  # of each connection
SETTLED_S = 1.5  # the first heartbeat is after the last add
SEED = 11


def measure(settings: Settings, on_turn: Callable[[str], object]) -> dict[str, Any]:
    """Measure the same heartbeats with each slack."""
    connections, seconds = settings.slack_connections, settings.slack_s
    rows = []
    for slack_s in SLACKS_S:
        on_turn(f"slack of {slack_s:g} s")
        rows.append(with_slack(slack_s, connections, seconds))
    return {"connections": connections, "heartbeat_s": HEARTBEAT_S, "seconds": seconds, "rows": rows}


def with_slack(slack_s: float, connections: int, seconds: float) -> dict[str, Any]:
    """Return the wake-ups that the timer counts, and the sleeps of its threads that the system counts.

    The heartbeats are evenly spread. Each callback adds the next heartbeat.
    """
    dice = random.Random(SEED)
    beats = 0
    with SystemTimer("slack") as timer:

        def beat() -> None:
            nonlocal beats
            beats += 1
            timer.call_later(HEARTBEAT_S, beat, slack=slack_s)

        for _ in range(connections):
            timer.call_later(dice.uniform(SETTLED_S, HEARTBEAT_S + SETTLED_S), beat, slack=slack_s)
        threads = [thread for thread in threading.enumerate() if thread.name.endswith(f"-{timer.name}")]
        settle(threads)
        time.sleep(SETTLED_S)
        before, slept, used, begun = timer.stats().wakeups, switches(threads), time.process_time(), time.monotonic()
        beats = 0
        time.sleep(seconds)
        wakeups, passed = timer.stats().wakeups - before, time.monotonic() - begun
        return {
            "slack_s": slack_s,
            "beats_a_second": beats / passed,
            "wakeups_a_second": wakeups / passed,
            "switches_a_second": None if slept is None else ((switches(threads) or 0) - slept) / passed,
            "processor_ms_a_second": (time.process_time() - used) * 1e3 / passed,
        }


def settle(threads: list[threading.Thread]) -> None:
    """Wait until the threads sleep after the adds, for at most 10 s."""
    give_up = time.monotonic() + 10
    before = None
    while before != (before := switches(threads)) and time.monotonic() < give_up:
        time.sleep(0.2)


def switches(threads: list[threading.Thread]) -> int | None:
    """Return the voluntary context switches of the threads, or None without /proc."""
    if not os.path.isdir("/proc/self/task"):
        return None
    total = 0
    for thread in threads:
        for line in Path(f"/proc/self/task/{thread.native_id}/status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                total += int(line.split()[1])
    return total


def show(part: dict[str, Any], console: Console) -> None:
    """Print a row per slack."""
    rows = [
        [
            f"{row['slack_s']:g} s" if row["slack_s"] else "none",
            row["beats_a_second"],
            row["wakeups_a_second"],
            "not counted here" if row["switches_a_second"] is None else row["switches_a_second"],
            row["processor_ms_a_second"],
        ]
        for row in part["rows"]
    ]
    title = f"a second of {part['connections']:,} idle connections, a heartbeat of each every {part['heartbeat_s']:g} s"
    headers = ["slack", "heartbeats", "wake-ups", "context switches", "ms of a processor"]
    show_rows(title, headers, rows, console)
