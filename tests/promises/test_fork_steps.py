"""A child forked at any step: new timers keep their time, nothing runs twice, it ends; the parent loses nothing."""

import os

import pytest

from forked import OTHERS, cases
from sampling import EXHAUSTIVE

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.mark.parametrize("case", [*cases(EXHAUSTIVE)])
def test_a_child_forked_here_works(run_with_helpers, case):
    answer = run_with_helpers(f"from forked import run\nrun({case!r})\n")
    assert answer == (0, "", "")


@pytest.mark.parametrize("what", OTHERS)
def test_a_child_uses_what_is_built_on_timers(run_with_helpers, what):
    answer = run_with_helpers(f"from forked import OTHERS\nOTHERS[{what!r}]()\n")
    assert answer == (0, "", "")
