"""Checks of arguments that more than one timer takes."""

import operator
from typing import Any


def whole_number(value: Any, name: str) -> int:
    """The value as an int; raises what is to be raised where it is none, or negative."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value < 0:
        raise ValueError(f"{name} must not be negative, but is {value}")
    return operator.index(value)
