"""tools/schedules finds no fault in the core, and finds the concurrency faults that are planted in it."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "tools" / "schedules"
pytest.importorskip("Cython")
if sys.platform != "linux" or shutil.which("cc") is None:
    pytest.skip("needs Linux and a C compiler", allow_module_level=True)


@pytest.fixture(scope="module")
def schedules():
    """Import tools/schedules/__main__.py as the module `schedules`."""
    spec = importlib.util.spec_from_file_location("schedules", FOLDER / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def program(schedules, tmp_path_factory):
    return schedules.build(tmp_path_factory.mktemp("schedules"))


def test_no_schedule_makes_a_scenario_fail(schedules, program):
    count = 0
    for name in schedules.SCENARIOS:
        for arguments in (("all", 0, 1), ("all", 1, 0), ("random", 2, 1, 10_000)):
            done = schedules.run(program, name, *arguments)
            assert done.returncode == 0, (name, arguments, done.stdout + done.stderr)
            count += int(re.match(r"\d+", done.stdout)[0])
    assert count > 400_000


def test_planted_faults_are_found(schedules, program):
    quick = [1, 4, 5, 6, 10, 11]  # `tools/schedules planted` searches for all of them
    found = {number: schedules.find(program, number) for number in quick}
    assert None not in found.values(), found


def test_a_schedule_can_be_repeated(schedules, program):
    first = schedules.run(program, "sleepers", "all", 0, 0, fault=4)
    _, _, arguments = first.stdout.partition("replay: ")
    again = schedules.run(program, "sleepers", *arguments.split(), fault=4)
    assert again.returncode == 1 and "thread 2, sleep: begins" in again.stdout
    assert again.stdout.splitlines()[-2].startswith("steps without an end")


@pytest.fixture(scope="module")
def watched(schedules, tmp_path_factory):
    """Return the program built with ThreadSanitizer. Skip if the compiler has no working one."""
    try:
        program = schedules.build(tmp_path_factory.mktemp("races"), races=True)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no ThreadSanitizer: {error.stderr}")
    if schedules.run(program, "tasks", "random", 0, 1, 1).returncode:
        pytest.skip("ThreadSanitizer does not work here")
    return program


def test_no_schedule_has_a_data_race(schedules, watched):
    count = 0
    for name in schedules.SCENARIOS:
        done = schedules.run(watched, name, "random", 2, 1, 2000)
        assert done.returncode == 0, (name, done.stdout + done.stderr)
        count += int(re.match(r"\d+", done.stdout)[0])
    assert count == 2000 * len(schedules.SCENARIOS)


@pytest.mark.parametrize(
    ("fault", "scenario"),
    [("a timer leaves the list of all timers without a lock", "fork"), ("a stop takes no lock", "close")],
)
def test_a_missing_lock_is_reported_as_a_data_race(schedules, watched, fault, scenario):
    number = [*schedules.planted.FAULTS].index(fault) + 1
    done = schedules.run(watched, scenario, "random", 0, 1, 10_000, fault=number)
    assert done.stdout.startswith("data race"), done.stdout
