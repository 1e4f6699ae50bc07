"""The result of a census: the pending tasks of a timer, grouped by callback."""

from collections.abc import Iterable
from types import CodeType
from typing import Any, NamedTuple


class CallbackGroup(NamedTuple):
    """The pending tasks of one callback. All times are in seconds.

    Attributes:
        module: The module that defines the callback; empty if it has none.
        qualname: The qualified name of the function or class.
        line: The first line of the function; None for compiled functions.
        owner: For bound methods and objects with ``__call__()`` the type of the object, as ``module.qualname``; for
            timeouts of a loop the type of the timeout; otherwise None.
        pending: The number of tasks.
        share: Their share of all tasks in the census, from 0 to 1.
        oldest: The time since the first of them was added or last rescheduled.
        nearest: The time until the first deadline; negative if it has passed.
        farthest: The time until the last deadline.
    """

    module: str
    qualname: str
    line: int | None
    owner: str | None
    pending: int
    share: float
    oldest: float
    nearest: float
    farthest: float


CallbackGroup.__module__ = "hwheel.types"


def census_of(rows: Iterable[tuple[Any, type | None, int, int, int, int]], now_s: float) -> list[CallbackGroup]:
    """Return the groups of the core's rows, the largest one first."""
    rows = [*rows]
    total = sum(row[2] for row in rows)
    groups = [
        CallbackGroup(
            *_place(target),
            None if owner is None else f"{owner.__module__}.{owner.__qualname__}",
            count,
            count / total,
            max(0.0, now_s - added_ms / 1e3),
            nearest_ms / 1e3 - now_s,
            farthest_ms / 1e3 - now_s,
        )
        for target, owner, count, added_ms, nearest_ms, farthest_ms in rows
    ]
    return sorted(groups, key=lambda group: (-group.pending, group[:3]))


def _place(target: Any) -> tuple[str, str, int | None]:
    """Return the module, the qualified name, and the first line of a callable."""
    module, qualname = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if isinstance(target, type):
        target = getattr(target, "run", target.__call__)
    code = getattr(target, "__code__", None)
    line = code.co_firstlineno if isinstance(code, CodeType) else None
    return str(module or ""), str(qualname or type(target).__qualname__), line
