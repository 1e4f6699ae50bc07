"""An idle timer: wake-ups with many far-off tasks pending."""

import os
import threading
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from hwheel import SystemTimer

FAR_S = 3600


def measure(tasks: int, seconds: float) -> dict[str, Any]:
    """Return the wake-ups that the timer counts, and the sleeps of its threads that the system counts."""
    with SystemTimer("idle") as timer:
        for i in range(tasks):
            timer.call_later(FAR_S + i % 10_000, print, i)
        threads = [thread for thread in threading.enumerate() if thread.name.endswith(f"-{timer.name}")]
        settle(threads)
        wakeups, slept, used = timer.stats().wakeups, switches(threads), time.process_time()
        time.sleep(seconds)
        return {
            "tasks": tasks,
            "seconds": seconds,
            "threads": len(threads),
            "wakeups": timer.stats().wakeups - wakeups,
            "context_switches": None if slept is None else (switches(threads) or 0) - slept,
            "processor_ms": (time.process_time() - used) * 1e3,
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
    """Print one line."""
    switches_text = "not counted here" if part["context_switches"] is None else str(part["context_switches"])
    console.print(
        f"idle, {part['tasks']:,} far-off tasks, {part['seconds']:g} s: {part['wakeups']} wake-ups, "
        f"context switches of {part['threads']} threads: {switches_text}, "
        f"{part['processor_ms']:.2f} ms of a processor\n"
    )
