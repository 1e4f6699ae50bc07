"""Builds the module with all mutants, and runs tests on each until one of them ends it."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import schemata
from schemata import ROOT, Mutant

OUT = ROOT / "build" / "mutants"
# A variable that is not set has to be something, or the compiler takes whatever value makes the mutant go away.
CFLAGS = "-w -fno-strict-overflow -ftrivial-auto-var-init=zero"
# What kills most, and takes a moment; then what kills what these do not come to. Before the others, because it takes
# longer to collect all tests than to run these.
FIRST = ["model/wheel_model", "unit/order_in_a_tick", "unit/worked_examples", "unit/advance_clock"]
SECOND = ["unit/memory", "unit/hints", "unit/bookmarks", "unit/emptied_buckets", "unit/steps", "unit/look"]
SECOND += ["unit/end_of_time", "model/timer_model", "threads/clock_set_back", "unit/batch", "model/delay_queue_model"]
SECOND += ["containers/delay_queue_times", "unit/large_wheels"]
# Long ones that are about something else.
LEFT_OUT = {"unit/long_chains", "model/proof", "unit/kafka_behaviour", "unit/replay_extremes"}


@dataclass(frozen=True)
class Ended:
    """How a mutant was found out."""

    how: str  # "failed", "hung", or the signal that ended it; "": it was not
    test: str


def build(debug: bool) -> Path:
    """The folder of the package with all mutants in it, compiled in place."""
    folder = OUT / ("debug" if debug else "release")
    stamp = folder / "built"
    here = Path(__file__).parent
    inputs = [
        ROOT / "setup.py",
        *(here / name for name in ["mutant.h", "operators.py", "schemata.py", "statements.py"]),
    ]
    for room in ["hwheel_core", "src"]:
        inputs += sorted(path for path in (ROOT / room).rglob("*.[ph]*") if path.is_file() and path.suffix != ".pyc")
    state = hashlib.sha256(b"".join(path.read_bytes() for path in inputs)).hexdigest()
    if not stamp.exists() or stamp.read_text() != state:
        schemata.write(folder)
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
        more = {"HWHEEL_CFLAGS": CFLAGS, "HWHEEL_DEBUG": "1" if debug else "0"}
        subprocess.run(command, cwd=folder, env=os.environ | more, check=True, capture_output=True)
        stamp.write_text(state)
    return folder


class Campaign:
    """The mutants in one build, and tests for them."""

    def __init__(self, debug: bool, folders: list[str], jobs: int, quick: bool) -> None:
        self.folder = build(debug)
        self.jobs = jobs
        self.logs = OUT / f"logs-{'debug' if debug else 'release'}"
        self.logs.mkdir(exist_ok=True)
        for old in self.logs.iterdir():
            old.unlink()
        left_out = {test_file(name) for name in LEFT_OUT}
        every = [path for folder in folders for path in tests_in(folder) if path not in left_out]
        if quick:
            every = [path for path in every if path in map(test_file, FIRST + SECOND)]
        self.usual: dict[str, float] = {}
        self.reached: dict[str, list[int]] = {}
        (whole,) = self.serve([0], [every], {})
        if whole["end"]:
            raise SystemExit(f"without a mutant {whole['test']} {whole['end']}: see {self.logs}/0.txt")
        self.usual, self.reached = whole["took"], whole["reached"]
        took = {path: sum(s for test, s in self.usual.items() if test.startswith(f"{path}::")) for path in every}
        stages = [[path for path in map(test_file, names) if path in every] for names in (FIRST, SECOND)]
        stages.append(sorted({*every} - {*stages[0], *stages[1]}, key=lambda path: took[path]))
        self.stages = [stage for stage in stages[: 2 if quick else 3] if stage]

    def serve(self, numbers: list[int], stages: list[list[str]], reaching: dict[int, list[str]]) -> Iterator[Any]:
        plan = {
            "mutants": numbers,
            "stages": stages,
            "reaching": reaching,
            "usual": self.usual,
            "jobs": self.jobs,
            "logs": str(self.logs),
        }
        paths = [str(self.folder), str(self.folder / "src")]
        more = {"PYTHONPATH": os.pathsep.join(paths), "HWHEEL_MODEL_EXAMPLES": "0.1", "HWHEEL_SOAK_SECONDS": "0.5"}
        command = [sys.executable, "-P", "-W", "ignore::DeprecationWarning", str(Path(__file__).parent / "serve.py")]
        with subprocess.Popen(
            command, cwd=ROOT, env=os.environ | more, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            json.dump(plan, process.stdin)
            process.stdin.close()
            for line in process.stdout:
                yield json.loads(line)
        if process.returncode:
            raise SystemExit(f"serve.py ended with status {process.returncode}")

    def reaching(self, mutant: Mutant) -> list[str]:
        """The tests that come to the mutant's statement."""
        return [test for test, reached in self.reached.items() if mutant.site in reached]

    def run(self, mutants: list[Mutant], on_end: Callable[[Mutant, Ended], object]) -> None:
        """Tells of each mutant how it ended, as soon as it has."""
        by_number = {mutant.number: mutant for mutant in mutants}
        reaching = {mutant.number: self.reaching(mutant) for mutant in mutants}
        for mutant in mutants:
            if not reaching[mutant.number]:
                on_end(mutant, Ended("", "no test reaches it"))
        some = [number for number, tests in reaching.items() if tests]
        for said in self.serve(some, self.stages, reaching):
            on_end(by_number[said["mutant"]], Ended(said["end"], said["test"]))


def test_file(name: str) -> str:
    folder, _, what = name.partition("/")
    return f"tests/{folder}/test_{what}.py"


def tests_in(folder: str) -> list[str]:
    path = ROOT / folder
    return [folder] if path.is_file() else sorted(str(file.relative_to(ROOT)) for file in path.glob("test_*.py"))
