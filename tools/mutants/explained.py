"""The mutants that no test can tell from the wheel, or that none is meant to, each with its reason: explained.toml."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests" / "helpers"))
from reason_lists import reasons_in

LIST = Path(__file__).with_name("explained.toml")


def explained() -> dict[str, str]:
    """{a mutant's name: why it survives}."""
    return reasons_in(LIST, "group", "mutants")
