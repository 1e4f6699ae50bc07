"""hwheel.replay.Log: what is no column of int64, or no timeout, is an error at the call."""

import numpy as np
import pytest

from hwheel.replay import NEVER, Log


@pytest.mark.parametrize("columns", [([0], [2**63], [NEVER]), ([0], [5], [2**63]), ([2**64 - 1], [5], [NEVER])])
def test_numbers_that_do_not_fit_are_refused(columns):
    with pytest.raises(OverflowError, match="64 bits"):
        Log(*columns)


def test_unsigned_numbers_that_fit_are_taken():
    log = Log(np.array([0], np.uint64), np.array([2**62], np.uint64), [NEVER])
    assert log.replay().at_ms.tolist() == [2**62]


@pytest.mark.parametrize("timeout_ms", [True, np.True_, 2.7, "5", np.array([1, 2]), [3]])
def test_a_timeout_for_all_is_one_int(timeout_ms):
    with pytest.raises(TypeError):
        Log([0, 0], [5, 5], [NEVER, NEVER]).replay(timeout_ms=timeout_ms)


def test_a_timeout_for_all_that_does_not_fit():
    with pytest.raises(OverflowError):
        Log([0], [5], [NEVER]).replay(timeout_ms=2**63)
