"""Memory and time of `hwheel deliver` for a burst. Linux only.

python bench/spark/burst.py [--messages 200000] [--payload 4000] [--hold 120] [--heap 1g] [--kill 5]

Runs the command on files of JSON, with a driver of Spark's default size. All messages are due in one tick, `hold`
seconds after the start, which must be enough to read them.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from processes import Peaks, family

A_FILE = 20_000
PATIENCE_S = 1800


def write_messages(place: Path, count: int, payload: int, due_ms: int) -> None:
    """Write files of messages that are due in one tick, with payloads that do not compress well."""
    for start in range(0, count, A_FILE):
        with (place / f".{start}").open("w") as file:
            for number in range(start, min(start + A_FILE, count)):
                text = os.urandom(min(payload, 64) // 2).hex()
                text *= payload // max(1, len(text))
                due = due_ms - number * 7919 % 1000
                message = {"id": f"m{number:09}", "key": f"user-{number % 100_000:06}", "due": due, "payload": text}
                file.write(json.dumps(message) + "\n")
        (place / f".{start}").rename(place / f"{start:09}.json")


def lines_in(place: Path, seen: dict[Path, int]) -> int:
    """Return the number of delivered messages. Output files never change."""
    for file in place.glob("*.json"):
        if file not in seen:
            with file.open("rb") as lines:
                seen[file] = sum(1 for _ in lines)
    return sum(seen.values())


def run(place: Path, options: argparse.Namespace) -> dict[str, object]:
    """Run one burst."""
    (place / "in").mkdir()
    due_ms = (int(time.time()) + options.hold) * 1000
    write_messages(place / "in", options.messages, options.payload, due_ms)
    command = [sys.executable, "-P", "-m", "hwheel", "deliver", "--from", "in", "--to", "out", "--checkpoint", "state"]
    command += ["--conf", f"spark.driver.memory={options.heap}", *options.options]
    peaks, before, seen = Peaks(), Peaks(), {}
    started = time.monotonic()
    kill_at_s = due_ms / 1000 + options.kill if options.kill else None
    with (place / "log").open("w") as log:
        job = subprocess.Popen(command, cwd=place, stdout=log, stderr=log)
        try:
            while (count := lines_in(place / "out", seen)) < options.messages:
                if kill_at_s and time.time() > kill_at_s:
                    kill_at_s = None
                    for process in family(job.pid):
                        with suppress(ProcessLookupError):
                            os.kill(process, signal.SIGKILL)
                    job.wait()
                    job = subprocess.Popen(command, cwd=place, stdout=log, stderr=log)
                (before if time.time() * 1000 < due_ms else peaks).look(job.pid)
                if job.poll() is not None or time.monotonic() > started + PATIENCE_S:
                    return {"failed": (place / "log").read_text()[-options.log :], "out": count, **vars(peaks)}
                time.sleep(0.2)
            seconds = time.time() - due_ms / 1000
        finally:
            job.terminate()
            job.wait()
    held = (place / "state/messages/commits/0").stat().st_mtime * 1000 < due_ms
    return {
        "messages": options.messages,
        "delivered": lines_in(place / "out", seen),
        "payload": options.payload,
        "heap": options.heap,
        "first batch completed before they were due": held,
        "killed": options.kill,
        "from due to the last file, s": round(seconds, 1),
        "MB while reading": {"java": before.java, "a worker": before.worker, "workers": before.workers},
        "MB while delivering": {"java": peaks.java, "a worker": peaks.worker, "workers": peaks.workers},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--payload", type=int, default=4000, help="bytes each (default: %(default)s)")
    parser.add_argument("--hold", type=int, default=120, metavar="SECONDS", help="time until they are due")
    parser.add_argument("--heap", default="1g", help="spark.driver.memory (default: %(default)s, which is Spark's)")
    parser.add_argument(
        "--kill", type=float, metavar="SECONDS", help="kill the job this long after they are due, and start it again"
    )
    parser.add_argument("--log", type=int, default=3000, help="characters of the log to show when the job fails")
    parser.add_argument("options", nargs="*", help="options of hwheel deliver, after --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hwheel-burst-") as place:
        print(json.dumps(run(Path(place), options), indent=1))


if __name__ == "__main__":
    main()
