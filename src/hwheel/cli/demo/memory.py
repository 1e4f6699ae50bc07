"""What a pending timer takes, by tracemalloc.

Counted is everything that is allocated between making the engine and the last of some thousand adds, by Python and by
the core: the timer's own buckets and heap, the handle, and its share in lists. Not counted are the callback, which all
share, its argument, and what the operating system holds: the stack of a thread, for one.
"""

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from hwheel.cli.demo.engines import Engine

FAR_S = 600.0  # nothing runs while it is counted


def bytes_a_timer(make_engine: Callable[[], Engine], count: int) -> float:
    """Makes an engine, adds `count` timers and returns what that took, divided by count."""
    first = time.monotonic() + FAR_S
    whens = [first + index * FAR_S / count for index in range(count)]
    indices = [*range(count)]
    handles: list[Any] = [None] * count
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        engine = make_engine()
        try:
            for index in indices:
                handles[index] = engine.call_at(whens[index], ignore, index)
            after, _ = tracemalloc.get_traced_memory()
        finally:
            handles.clear()
            engine.close()
    finally:
        tracemalloc.stop()
    return (after - before) / count


def ignore(index: int) -> None:
    """A callback that does nothing."""
