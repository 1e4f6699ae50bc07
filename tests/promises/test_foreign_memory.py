"""Memory that a caller lends may be changed by another thread during the call: an error or either value, never a crash.

Every function that takes a buffer, see foreign.py. With HWHEEL_SOAK_SECONDS each for that long.
"""

import os
import pathlib
import subprocess
import sys

import pytest

SECONDS = float(os.environ.get("HWHEEL_SOAK_SECONDS", "1"))
FOREIGN = pathlib.Path(__file__).with_name("foreign.py")


def run_foreign(*arguments):
    return subprocess.run(
        [sys.executable, "-P", FOREIGN, *map(str, arguments)],
        capture_output=True, text=True, timeout=SECONDS + 100, check=False,
    )


@pytest.mark.parametrize("name", run_foreign().stdout.splitlines())
def test_memory_that_changes_during_the_call(name):
    done = run_foreign(name, SECONDS)
    assert done.returncode == 0 and "all done" in done.stdout, f"{done.returncode}: {done.stdout}\n{done.stderr}"
