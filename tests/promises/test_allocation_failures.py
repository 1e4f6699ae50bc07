"""Out-of-memory: a failed allocation raises MemoryError and changes nothing. With memory again, everything goes on."""

import ast
import sys

import pytest

pytest.importorskip("_testcapi", reason="this CPython lacks _testcapi, which makes allocations fail")

import allocation_dispatch  # noqa: F401     (these modules register scenarios)
import allocation_faces  # noqa: F401
import allocation_timers  # noqa: F401
from allocation_failures import SCENARIOS
from sampling import at_least

PARTS = 8
NAMES = at_least(129, SCENARIOS)
FEWEST_ERRORS = 100  # MemoryErrors in each part
PROGRAM = """
import allocation_dispatch, allocation_faces, allocation_timers, allocation_failures
allocation_failures.search_all({!r})
"""


@pytest.mark.parametrize("part", range(PARTS))
def test_no_failed_allocation_loses_or_repeats_a_task(run_with_helpers, part):
    names = [name for name in NAMES[part::PARTS] if not SCENARIOS[name].runs_python or sys.version_info < (3, 12)]
    status, out, err = run_with_helpers(PROGRAM.format(names))
    assert (status, len(out.splitlines()), err) == (0, 1, "")
    errors = ast.literal_eval(out)
    assert [*errors] == names
    assert sum(errors.values()) >= FEWEST_ERRORS
