"""tools/schedules finds nothing in the core, and finds concurrency faults that are planted in it."""

import re
import shutil
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "tools" / "schedules"
pytest.importorskip("Cython")
if sys.platform != "linux" or shutil.which("cc") is None:
    pytest.skip("needs Linux and a C compiler", allow_module_level=True)


@pytest.fixture(scope="module")
def schedules():
    """Import tools/schedules/__main__.py under a name of its own."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("schedules", FOLDER / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def program(schedules, tmp_path_factory):
    return schedules.build(tmp_path_factory.mktemp("schedules"))


def test_no_schedule_breaks_a_promise(schedules, program):
    count = 0
    for name in schedules.SCENARIOS:
        for arguments in (("all", 0, 1), ("all", 1, 0), ("random", 2, 1, 10_000)):
            done = schedules.run(program, name, *arguments)
            assert done.returncode == 0, (name, arguments, done.stdout + done.stderr)
            count += int(re.match(r"\d+", done.stdout)[0])
    assert count > 400_000


def test_planted_faults_are_found(schedules, program):
    quick = [1, 4, 5, 7, 11, 12]  # `tools/schedules planted` searches for all of them
    found = {number: schedules.find(program, number) for number in quick}
    assert None not in found.values(), found


def test_a_schedule_can_be_repeated(schedules, program):
    first = schedules.run(program, "sleepers", "all", 0, 0, fault=4)
    _, _, arguments = first.stdout.partition("replay: ")
    again = schedules.run(program, "sleepers", *arguments.split(), fault=4)
    assert again.returncode == 1 and "thread 2, sleep: begins" in again.stdout
    assert again.stdout.splitlines()[-2].startswith("steps without an end")
