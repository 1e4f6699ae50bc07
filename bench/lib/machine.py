"""The machine and the versions of a run, the installed peers, and new interpreters for measurements."""

import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import hwheel
import hwheel_core

BENCH = Path(__file__).parents[1]
PEERS = ("uvloop", "sortedcontainers", "numpy", "cachetools", "expiringdict")


def machine() -> dict[str, Any]:
    """Return the machine, the interpreter, versions, the commit, and the load average."""
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
    """Return the load averages of the last 1, 5, and 15 minutes."""
    return [round(load, 2) for load in os.getloadavg()]


def processor() -> str:
    """Return the processor's name, if the system reports it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def version_of(distribution: str) -> str | None:
    """Return the version of a distribution, or None if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def commit() -> str | None:
    """Return the commit of this checkout, with a + if it has changes, or None outside a checkout."""
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
            cwd=BENCH,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def installed(makes: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Return the peers whose `module` is installed, and a note for each of the others."""
    found = [make for make in makes if make.module is None or importlib.util.find_spec(make.module)]
    return found, [f"{make.name} is left out: pip install {make.module}" for make in makes if make not in found]


def isolated(module: str, function: str, *arguments: Any) -> Any:
    """Return function(*arguments) of a new interpreter, with unused memory. Arguments and result must fit into JSON.

    Raises:
        RuntimeError: The call failed. The message is its output.
    """
    script = (
        f"import json, sys; sys.path.insert(0, {str(BENCH)!r}); from {module} import {function} as work; "
        "print(json.dumps(work(*json.loads(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, json.dumps(arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{module}.{function}{arguments} failed:\n{done.stderr}")
    return json.loads(done.stdout)
