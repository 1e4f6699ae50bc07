"""Ctrl-C wherever it can come: no task is lost or runs twice, the timer goes on or can be closed, nothing hangs."""

import os

import pytest

from interrupted import cases
from sampling import EXHAUSTIVE

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.mark.parametrize("name", cases(EXHAUSTIVE))
def test_an_interruption_halves_nothing(run_with_helpers, name):
    sample = None if EXHAUSTIVE else 6
    answer = run_with_helpers(
        f"""
from interrupted import scenario_named
from interrupting import search
search(scenario_named({name!r}), {sample})
"""
    )
    assert answer == (0, "", "")
