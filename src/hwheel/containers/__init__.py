"""Containers built on timers: a dict whose entries expire, and a queue whose items become available at a deadline."""

import io
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from hwheel.timers.base import BaseTimer
from hwheel.timers.system import SystemTimer

_T = TypeVar("_T")
_timers: dict[str, BaseTimer] = {}


def shared_timer(name: str, **options: Any) -> BaseTimer:
    """Return the process's timer of this name, for containers that get no timer. It is never closed.

    If two threads create it at once, one of the two timers is dropped before it has started a thread.
    """
    timer = _timers.get(name)
    return _timers.setdefault(name, SystemTimer(name, **options)) if timer is None else timer


# Helpers for containers with many entries. They free, compare, and format one entry at a time, so that other threads
# can run in between.

MISSING: Any = object()


def each(items: list[_T]) -> Iterator[_T]:
    """Yield the items of a list and remove them from it. The caller must not use the list any more."""
    items.reverse()
    while items:
        yield items.pop()


def is_equal(found: object, value: object) -> bool:
    """Compare two values as a dict does."""
    return found is value or (found is not MISSING and bool(found == value))


def repr_of(pairs: Iterable[tuple[Any, Any]]) -> str:
    """Return the repr of a dict with these pairs."""
    text, separator = io.StringIO(), "{"
    for key, value in pairs:
        text.write(f"{separator}{key!r}: {value!r}")
        separator = ", "
    return text.getvalue() + "}" if separator != "{" else "{}"
