"""Memory that a caller lends may be changed by another thread during the call: an error or either value, never a crash.

Every function that takes a buffer, see foreign.py. With HWHEEL_SOAK_SECONDS each for that long.
"""

import pathlib

import pytest

from programs import run_python
from sampling import search_seconds

SECONDS = search_seconds(1)
FOREIGN = pathlib.Path(__file__).with_name("foreign.py")


def run_foreign(*arguments):
    return run_python(FOREIGN, *arguments, patience_s=SECONDS + 100)


@pytest.mark.parametrize("name", run_foreign().out.splitlines())
def test_memory_that_changes_during_the_call(name):
    done = run_foreign(name, SECONDS)
    assert done.status == 0 and "all done" in done.out, f"{done.status}: {done.out}\n{done.err}"
