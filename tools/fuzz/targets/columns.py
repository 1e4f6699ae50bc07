"""The functions over columns and the replay: the properties of tests/model, on what a fuzzer finds."""

import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[3] / "tests"
sys.path += [str(TESTS / "helpers"), str(TESTS / "model")]
import test_columns  # noqa: E402
import test_replay_model  # noqa: E402

PROPERTIES: list[Any] = [
    test_columns.test_place_is_the_placement_of_the_wheel,
    test_columns.test_what_a_bucket_held_lands_lower_when_it_is_placed_again_until_it_is_due,
    test_columns.test_group_gathers_equal_rows_in_order,
    test_columns.test_order_by_is_a_stable_sort,
    test_columns.test_survivors_are_the_first_of_their_kind_without_a_tombstone,
    test_replay_model.test_each_timer_fares_as_in_a_manual_timer,
    test_replay_model.test_the_peak_is_the_most_that_was_pending_at_once,
]


def run(data: bytes) -> int:
    """One example of one property. Returns 1."""
    if data:
        PROPERTIES[data[0] % len(PROPERTIES)].hypothesis.fuzz_one_input(data[1:])
    return 1
