"""The functions over columns and the replay, checked by the properties of tests/model."""

import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[3] / "tests"
sys.path += [str(TESTS / "helpers"), str(TESTS / "model")]
import test_columns  # noqa: E402
import test_replay_model  # noqa: E402

MODULES = (test_columns, test_replay_model)
PROPERTIES: list[Any] = [one for module in MODULES for one in vars(module).values() if hasattr(one, "hypothesis")]
assert len(PROPERTIES) >= 5, PROPERTIES


def run(data: bytes) -> int:
    """Check one example of one property. Return the number of operations, 1."""
    if data:
        PROPERTIES[data[0] % len(PROPERTIES)].hypothesis.fuzz_one_input(data[1:])
    return 1
