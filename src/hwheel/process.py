"""What the life of the process does to timers: a fork leaves them without threads, an exit must not wait for them."""

import atexit
import os
import threading
import weakref
from typing import Any

_timers: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.Lock()


def follow_process(timer: Any) -> None:
    """From now on the timer hears of forks and of the interpreter's end."""
    with _lock:
        _timers.add(timer)


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    for timer in [*_timers]:
        timer._after_fork_in_child()


def _at_exit() -> None:
    for timer in [*_timers]:
        timer._at_exit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
