"""Run the plain half of the core under a scheduler that chooses every switch between threads.

`search` runs the scenarios under every schedule with a few preemptions and faults, and under random ones. `planted`
searches with faults in the core, and must find each. `replay` runs one schedule again and prints its steps. Its
arguments are those that a failure prints. With --races, ThreadSanitizer watches each schedule for data races.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "plain"))
import plain_build
import planted
from scenarios import SCENARIOS

HERE = Path(__file__).parent
# Few inboxes, which are soon full.
SMALL = [("INBOXES = 8", "INBOXES = 2"), ("INBOX_CAPACITY = 128", "INBOX_CAPACITY = 4")]
FLAGS = ("-O2", "-g", '-DHW_PLATFORM="controlled.h"', "-DHW_INBOXES=world_inboxes", "-DHW_MEETINGS=world_meetings")


def build(folder: Path, *, races: bool = False) -> list[str]:
    """Build the program, with all planted faults switched off, and return its command."""
    changes = [*plain_build.SMALL_SLICES, *planted.planted()]
    plain_build.write_sources(folder, changes, HERE, ["world"])
    structs = folder / "core" / "timer" / "structs.pxd"
    text = structs.read_text()
    for old, new in SMALL:
        assert text.count(old) == 1, f"{old!r} is not once in {structs}"
        text = text.replace(old, new)
    structs.write_text(text)
    plain_build.translate(folder)
    flags = [*FLAGS, "-I", "core", "-isystem", sysconfig.get_path("include")]
    plain_build.run(folder, ["cc", *flags, *(["-DRACES"] if races else []), "-c", "scheduler.c"])
    sanitizer = ["-fsanitize=thread"] if races else []
    program = plain_build.compile_program(folder, "cc", *FLAGS, *sanitizer, "scheduler.o", source="plain_core.c")
    # Fixed addresses, because some kernels put programs where ThreadSanitizer's shadow memory has to be.
    prefix = ["setarch", platform.machine(), "-R"] if races and shutil.which("setarch") else []
    return [*prefix, str(program)]


def run(program: list[str], scenario: str, *arguments: object, fault: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a scenario, with a planted fault."""
    command = [*program, str(fault), SCENARIOS[scenario], *map(str, arguments)]
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1:atexit_sleep_ms=0"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def described(arguments: tuple[object, ...]) -> str:
    """Return the kind and the bounds of a search."""
    return "random" if arguments[0] == "random" else "{1} faults, {2} preemptions".format(*arguments)


def search(program: list[str], options: argparse.Namespace) -> int:
    """Search for failures in the scenarios. Return the number of those that fail."""
    failures = 0
    bounds = [*zip(options.faults, options.preemptions, strict=True)]
    for name in options.scenarios or SCENARIOS:
        runs: list[tuple[object, ...]] = [("all", faults, preemptions) for faults, preemptions in bounds]
        runs.append(("random", 2, options.seed, options.random))
        for arguments in runs:
            started = time.monotonic()
            done = run(program, name, *arguments)
            failures += done.returncode != 0
            result = (done.stdout + done.stderr).strip().replace("replay:", f"replay: {name!r}")
            print(f"{name:22} {described(arguments):25} {time.monotonic() - started:6.1f} s  {result}", flush=True)
            if done.returncode:
                break
    return failures


def attempts() -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield the searches for a planted fault, the short ones first."""
    for arguments in (
        ("all", 0, 0),
        ("all", 1, 0),
        ("all", 0, 1),
        ("random", 2, 1, 50_000),
        ("random", 2, 1, 500_000),
        ("all", 1, 1),
    ):
        for name in SCENARIOS:
            yield name, arguments


def find(program: list[str], number: int) -> str | None:
    """Search for a planted fault. Return how it was found."""
    for name, arguments in attempts():
        done = run(program, name, *arguments, fault=number)
        if done.returncode:
            return f"{name}, {described(arguments)}: {done.stdout.splitlines()[0]}"
    return None


def search_planted(folder: Path, chosen: list[int]) -> int:
    """Search for each planted fault, and print how it was found. Return the number of those that were not."""
    programs: dict[bool, list[str]] = {}
    missed = 0
    for number, fault in enumerate(planted.FAULTS, 1):
        if chosen and number not in chosen:
            continue
        races = fault in planted.DATA_RACES
        if races not in programs:
            programs[races] = build(folder / str(races), races=races)
        found = find(programs[races], number)
        missed += found is None
        print(f"{number:2} {fault}\n      {found or 'NOT FOUND'}", flush=True)
    return missed


def main() -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="schedules", description=__doc__)
    parser.add_argument("--races", action="store_true", help="search for data races, too; much slower")
    modes = parser.add_subparsers(dest="mode", required=True)
    searching = modes.add_parser("search", help="search the scenarios for failures")
    searching.add_argument("scenarios", nargs="*", choices=[[], *SCENARIOS], metavar="SCENARIO", help="default: all")
    searching.add_argument("--faults", type=int, nargs="+", default=[0, 1], help="at most so many, for each search")
    searching.add_argument("--preemptions", type=int, nargs="+", default=[2, 1], help="the same for preemptions")
    searching.add_argument("--random", type=int, default=100_000, help="number of random schedules of each scenario")
    searching.add_argument("--seed", type=int, default=1, help="of the first random schedule")
    planting = modes.add_parser("planted", help="search for planted faults")
    planting.add_argument("numbers", type=int, nargs="*", help="default: all")
    replaying = modes.add_parser("replay", help="run one schedule and print its steps")
    replaying.add_argument("scenario", choices=SCENARIOS)
    replaying.add_argument("--fault", type=int, default=0, help="number of a planted fault")
    replaying.add_argument("arguments", nargs="+", help="the arguments that a failure has printed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.mode == "planted":
            return min(search_planted(Path(folder), options.numbers), 1)
        program = build(Path(folder), races=options.races)
        if options.mode == "search":
            return min(search(program, options), 1)
        done = run(program, options.scenario, *options.arguments, fault=options.fault)
        print(done.stdout, end="")
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
