"""Which peers can be measured here."""

import importlib.util
from collections.abc import Sequence
from typing import Any


def installed(makes: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Those whose `module` is there, or who need none, and a line for each other."""
    found = [make for make in makes if make.module is None or importlib.util.find_spec(make.module)]
    return found, [f"{make.name} is left out: pip install {make.module}" for make in makes if make not in found]
