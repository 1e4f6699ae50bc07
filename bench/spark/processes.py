"""Memory and processor time of a process and its descendants: Spark's JVM and Python workers. Linux only."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Peaks:
    """The peak memory in MB of Java, of one Python worker, and of all workers together."""

    java: int = 0
    worker: int = 0
    workers: int = 0

    def look(self, root: int) -> None:
        """Sample a process and its descendants."""
        java, workers = 0, []
        for process in family(root):
            try:
                name = Path(f"/proc/{process}/comm").read_text().strip()
                status = Path(f"/proc/{process}/status").read_text()
            except OSError:  # the process has just ended
                continue
            # Without mapped files, whose memory the system can reclaim.
            size = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")), 0) // 1024
            if name == "java":
                java = max(java, size)
            elif process != root and name.startswith("python"):  # a child of Java shares its memory for a moment
                workers.append(size)
        self.java = max(self.java, java)
        self.worker = max([self.worker, *workers])
        self.workers = max(self.workers, sum(workers))


def family(root: int) -> dict[int, list[str]]:
    """Return a process and its descendants, with the fields of /proc/PID/stat from the parent on."""
    fields = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:  # the process has just ended
                continue
            fields[int(entry.name)] = text[text.rindex(")") + 2 :].split()[1:]
    found = {root}
    while more := {process for process, one in fields.items() if int(one[0]) in found} - found:
        found |= more
    return {process: fields.get(process, []) for process in found}


def processor_seconds() -> float:
    """Return user and system time of this process and its descendants, including children that have ended.

    On a shared machine it is more reliable than elapsed time.
    """
    ticks = sum(int(field) for fields in family(os.getpid()).values() for field in fields[10:14])
    return ticks / os.sysconf("SC_CLK_TCK")
