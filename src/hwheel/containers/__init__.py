"""Containers built on timers: a dict whose entries expire, and a queue whose items become available at a deadline."""

import io
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from hwheel.timers.base import BaseTimer
from hwheel.timers.system import SystemTimer

_T = TypeVar("_T")
_timers: dict[str, BaseTimer] = {}


def shared_timer(name: str, **options: Any) -> BaseTimer:
    """Return the process's timer of this name, for containers that are given none. It is never closed.

    Two threads may create it at once; one of the two timers is then dropped, before it has started a thread.
    """
    timer = _timers.get(name)
    return _timers.setdefault(name, SystemTimer(name, **options)) if timer is None else timer


# Helpers of the containers with many entries. Each of them lets other threads run in between: freeing, comparing, or
# formatting everything at once would hold the GIL.

MISSING: Any = object()


def each(items: list[_T]) -> Iterator[_T]:
    """Iterate over a list that no one else uses, and release it gradually."""
    items.reverse()
    while items:
        yield items.pop()


def is_equal(found: object, value: object) -> bool:
    """Compare two values as a dict does."""
    return found is value or (found is not MISSING and bool(found == value))


def repr_of(pairs: Iterable[tuple[Any, Any]]) -> str:
    """Return what a dict of these pairs shows."""
    text, separator = io.StringIO(), "{"
    for key, value in pairs:
        text.write(f"{separator}{key!r}: {value!r}")
        separator = ", "
    return text.getvalue() + "}" if separator != "{" else "{}"
