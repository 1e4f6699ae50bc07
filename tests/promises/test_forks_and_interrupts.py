"""Forks and interrupts at any point: no task is lost or runs twice, and nothing hangs.

By default each test tries a sample; HWHEEL_SOAK_SECONDS=1 tries everything.
"""

import os

import pytest

from fork_points import fork_cases
from interruption_scenarios import interruption_cases
from sampling import EXHAUSTIVE, at_least

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
NO_FAULTS = (0, "", "")


@pytest.mark.parametrize("case", at_least(130 if EXHAUSTIVE else 31, fork_cases(EXHAUSTIVE)))
def test_a_child_that_is_forked_at_this_point_works(find_faults, case):
    assert find_faults("fork_points", "run", case) == NO_FAULTS


@pytest.mark.parametrize("name", at_least(85 if EXHAUSTIVE else 24, interruption_cases(EXHAUSTIVE)))
def test_an_interrupt_at_any_point_leaves_the_timer_consistent(find_faults, name):
    assert find_faults("interruption_scenarios", "search_case", name, None if EXHAUSTIVE else 6) == NO_FAULTS
