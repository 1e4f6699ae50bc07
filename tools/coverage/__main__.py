"""Counts which lines of the package tests reach, those of Python and those of the compiled core, and says which others
have no reason in reasons.toml. The report is build/coverage/index.html.

The core is an instrumented build: see compiled.py. What ends by os._exit or a signal has told nothing, so that some of
what runs only in such processes has that as its reason.
"""

import argparse
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import coverage
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))
import compiled
from reasons import LIST, names, reasons, whole_files

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OUT = ROOT / "build" / "coverage"
BUILD = ROOT / ".venv-coverage" / "source"
SPARK = "src/hwheel/spark"
# Each is a part, which runs by itself: those that take longest first.
TESTS = ["tests/promises/test_no_memory.py", "tests/promises/test_states.py"]
TESTS += [
    f"tests/{name}" for name in ["threads", "lifetime", "dropin", "containers", "model", "promises", "purgatory", "cli"]
]
TESTS += [f"tests/{name}" for name in ["unit", "recorder", "c_api", "live", "tune", "adaptors"]]
# What sets a trace function itself, what takes long, what is about other software, and what forks while threads begin,
# each of which takes the lock of coverage.py: a child finds it taken for ever.
LEFT_OUT = [
    "promises/test_interruption.py",
    "promises/test_fork_steps.py",
    "dropin/test_interruptions.py",
    "dropin/test_cpython_tests.py",
    "dropin/asyncio/test_interruptions.py",
    "dropin/asyncio/test_other_software.py",
    "dropin/test_timer_crowds.py",
    "purgatory/test_interruptions.py",
    "recorder/test_interruptions.py",
    "lifetime/test_soak.py",
    "lifetime/test_ends.py",
    "lifetime/test_fork_locks.py",
    "unit/test_long_chains.py",
]
# CPython 3.11 hangs in it now and then: while a thread waits in C for one that is traced, a signal that does not end
# that wait (siginterrupt(False), as asyncio sets it for its own) lets the traced one turn for ever where its next
# function begins. A plain program does so each time; on 3.12 it does not.
NOT_TRACED = "tests/dropin/asyncio/test_cpython.py::test_cpythons_own_tests_pass_on_the_wheel[test_events]"


def main() -> int:
    """The command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="lines", description=__doc__)
    parser.add_argument("--spark", action="store_true", help="with tests/spark, and so with hwheel.spark: minutes more")
    parser.add_argument("--tests", nargs="+", default=TESTS, metavar="PATH", help="these, and not all that are usual")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many parts at a time")
    parser.add_argument("--report", action="store_true", help="of what was counted last; no test is run")
    parser.add_argument("--strict", action="store_true", help="a line without a reason is an error")
    parser.add_argument("--all", action="store_true", help="also the files of which all is reached")
    options = parser.parse_args()
    os.environ["HWHEEL_LINES"] = str(OUT)
    status = 0 if options.report else run([*options.tests, *(["tests/spark"] if options.spark else [])], options.jobs)
    missing = report(options.spark, options.all, Console(soft_wrap=True))
    return status or (1 if missing and options.strict else 0)


def run(tests: list[str], jobs: int) -> int:
    """Runs the tests, and leaves what was counted in OUT and beside the objects of BUILD."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    for old in BUILD.rglob("*.gcda"):
        old.unlink()
    with ThreadPoolExecutor(jobs) as pool:
        return max(pool.map(lambda part: run_part(part, tests), tests))


def run_part(part: str, parts: list[str]) -> int:
    """Runs a file or folder of tests, without what is a part of its own. What pytest says is shown when it is over."""
    command = [sys.executable, "-P", "-m", "coverage", "run", f"--rcfile={HERE / 'coverage.ini'}", "-m", "pytest", "-q"]
    command += [f"--ignore=tests/{path}" for path in LEFT_OUT] + [f"--deselect={NOT_TRACED}"]
    command += [f"--ignore={other}" for other in parts if other.startswith(f"{part}/")]
    more = {"HWHEEL_MODEL_EXAMPLES": "0.2", "HWHEEL_SOAK_SECONDS": "0.3"}
    told = subprocess.run(
        [*command, part], cwd=ROOT, env=os.environ | more, check=False, text=True, stdout=subprocess.PIPE
    )
    print(f"{part}\n{told.stdout}", flush=True)
    return told.returncode


def report(spark: bool, everything: bool, console: Console) -> int:
    """Prints the table and what has no reason; writes the pages. Returns how many lines have none."""
    os.chdir(ROOT)
    cover = coverage.Coverage(config_file=str(HERE / "coverage.ini"))
    cover.set_option("run:plugins", ["compiled"])
    cover.combine(keep=True)
    data = cover.get_data()
    compiled.add(data, ROOT, compiled.counted(BUILD))
    known, whole = reasons(), whole_files()
    used: set[str] = set()
    table = Table("file", "lines", "reached", "with a reason", "without")
    totals = {"Python": [0, 0, 0, 0], "Cython": [0, 0, 0, 0]}
    missing: list[str] = []
    for file in sorted(data.measured_files()):
        path = Path(file)
        if not path.exists() or (not spark and file.startswith(str(ROOT / SPARK))):
            continue
        _, lines, _, left, _ = cover.analysis2(file)
        named = names(ROOT, path)
        is_whole = str(path.relative_to(ROOT)) in whole
        explained = [line for line in left if is_whole or named.get(line) in known]
        used |= {named[line] for line in explained if not is_whole}
        without = [line for line in left if line not in explained]
        missing += [f"line {line} of {named.get(line, path.name)}" for line in without]
        counts = [len(lines), len(lines) - len(left), len(explained), len(without)]
        total = totals["Python" if path.suffix == ".py" else "Cython"]
        total[:] = [before + more for before, more in zip(total, counts, strict=True)]
        if left or everything:
            table.add_row(str(path.relative_to(ROOT)), *map(str, counts))
    table.add_section()
    for language, counts in totals.items():
        table.add_row(f"{language}: {counts[1] / max(1, counts[0]):.1%}", *map(str, counts))
    console.print(table)
    omit = [] if spark else [f"{ROOT / SPARK}/*"]
    cover.html_report(directory=str(OUT), omit=omit, title="hwheel: which lines tests reach")
    for line in missing:
        console.print(f"no test reaches {line}", markup=False, highlight=False)
    for name in sorted({*known} - used):
        console.print(f"{LIST.name} has a reason for what is reached, or is not there: {name}", markup=False)
    console.print(f"see {OUT.relative_to(ROOT)}/index.html")
    return len(missing)


if __name__ == "__main__":
    sys.exit(main())
