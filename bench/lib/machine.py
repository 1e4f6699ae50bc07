"""Where and on what a run was made."""

import os
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import hwheel
import hwheel_core

PEERS = ("uvloop", "sortedcontainers", "apscheduler", "numpy", "cachetools", "expiringdict")


def machine() -> dict[str, Any]:
    """The machine, the interpreter, versions, the commit, and how busy the machine is."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "processor": processor(),
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "hwheel": hwheel.__version__,
        "hwheel_debug_build": hwheel_core.DEBUG,
        "commit": commit(),
        "peers": {name: version_of(name) for name in PEERS},
        "load_average": load_average(),
    }


def load_average() -> list[float]:
    """Processes that wanted to run, over the last 1, 5 and 15 minutes."""
    return [round(load, 2) for load in os.getloadavg()]


def processor() -> str:
    """The processor's name, as far as the system tells."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def version_of(distribution: str) -> str | None:
    """Its version; None if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit of the checkout that this file is in, with a + if there are changes; None outside of one."""
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
