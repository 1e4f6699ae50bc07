"""`hwheel deliver` as a child process, and a counter of its output."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

OPTIONS = [
    "--tick",
    "200ms",
    "--trigger",
    "500ms",
    "--dead-letters-every",
    "10s",
    "--dedup",
    "1 hour",
    "--conf",
    "spark.driver.memory=2g",
]
PATIENCE_S = 300.0


class JobFailed(RuntimeError):
    """The job ended early or did not start. The message has the end of its log."""


class Job:
    """A job in a directory, with in/, out/, out-dead-letters/, state/, and log."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "in").mkdir(parents=True)
        places = ["--from", "in", "--to", "out", "--checkpoint", "state"]
        self.log = directory / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "hwheel", "deliver", *places, *OPTIONS],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_until_it_runs(self) -> None:
        """Wait for the start of Spark, which takes some seconds."""
        give_up = time.monotonic() + PATIENCE_S
        while "running" not in self.log.read_text():
            self.check()
            if time.monotonic() > give_up:
                raise JobFailed(f"hwheel deliver did not start in {PATIENCE_S:.0f} s: {self.log.read_text()[-2000:]}")
            time.sleep(0.1)

    def check(self) -> None:
        """Raise JobFailed if the job has ended."""
        if self.process.poll() is not None:
            raise JobFailed(f"hwheel deliver has ended: {self.log.read_text()[-2000:]}")

    def stop(self) -> int:
        """Stop the job with a signal; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        """Kill the job and its JVM, which would otherwise continue to write for a moment."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Counted:
    """Counts the lines of the files in a directory, and reads each file once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.seen: set[str] = set()
        self.lines = 0
        self.lag_ms: int | None = None  # of the first line of the newest file

    def look(self) -> int:
        """Count new files; return the number of lines in all files."""
        newest = None
        for file in sorted(self.directory.glob("*.json")):
            if file.name not in self.seen:
                self.seen.add(file.name)
                newest = file
                self.lines += file.read_bytes().count(b"\n")
        if newest is not None:
            with newest.open() as lines:
                due_ms = json.loads(lines.readline()).get("due")
            if due_ms is not None:
                self.lag_ms = newest.stat().st_mtime_ns // 1_000_000 - due_ms
        return self.lines
