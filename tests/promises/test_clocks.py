"""Clocks of the user's that step back, jump ahead, stand still, fail or return nonsense: never early by that clock,
nothing lost, in order, and the timer goes on once the clock is good again."""

import pytest

from clocks import CASES
from sampling import sample


@pytest.mark.parametrize("case", sample(CASES, 5))
def test_the_timer_keeps_its_promises_by_this_clock(run_with_helpers, case):
    assert run_with_helpers(f"import clocks\nclocks.run({case!r})\n") == (0, "", "")
