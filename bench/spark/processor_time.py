"""The processor time of this process and its descendants: Spark's JVM and Python workers. Linux only.

On a shared machine it is more reliable than elapsed time.
"""

import os
from pathlib import Path


def processor_seconds() -> float:
    """Return user and system time, including children that have ended."""
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:  # the process has just ended
            continue
        fields = text[text.rindex(")") + 2 :].split()
        parents[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks[process] for process in family) / os.sysconf("SC_CLK_TCK")
