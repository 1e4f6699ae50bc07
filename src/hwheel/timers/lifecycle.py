"""Forks and the interpreter's exit: every timer is notified of both.

There is no lock here, because a signal handler or a finalizer may create a timer while another one is being created.
Each change of the dictionary is a single atomic step instead.
"""

import atexit
import concurrent.futures.thread  # noqa: F401  # pyright: ignore[reportUnusedImport]  # its fork handler runs first
import functools
import itertools
import os
import threading
import weakref
from typing import Any

from hwheel_core import report_uncaught

_numbers = itertools.count()
_followers: dict[int, weakref.ref[Any]] = {}


def follow_process(follower: Any) -> None:
    """Call the follower's ``_after_fork_in_child()`` and ``_at_exit()`` at forks and at exit, until it is freed."""
    number = next(_numbers)
    # Not a Python function, so that an asynchronous exception cannot interrupt it.
    forget = functools.partial(_followers.pop, number)
    _followers[number] = weakref.ref(follower, forget)


def followers() -> list[Any]:
    """Return the live followers, oldest first."""
    found = [follower() for follower in [*_followers.values()]]
    return [follower for follower in found if follower is not None]


def main_thread_has_ended() -> bool:
    """Return True if the interpreter is shutting down."""
    return getattr(threading, "_SHUTTING_DOWN", False) or not threading.main_thread().is_alive()


def end_forked_thread() -> None:
    """End the process if a callback forked it in this thread and has now returned.

    The thread that forks is the main thread of the child. So this function waits for the other non-daemon threads, as
    Python does at the end of a main thread. Then it ends the process, which daemon threads of timers would keep alive.
    Nothing is flushed and no exit handler runs, as always when a forked thread ends.
    """
    if threading.main_thread() is threading.current_thread():
        try:
            threading._shutdown()  # type: ignore[attr-defined]
        finally:
            os._exit(0)


def _notify(method: str) -> None:
    """Call the method of each follower, the newest first. An error is reported, and the others are still called."""
    remaining = [*_followers.values()]
    while remaining:
        try:
            while remaining:
                follower = remaining.pop()()
                if follower is not None:
                    getattr(follower, method)()
        except BaseException as error:
            report_uncaught(error, threading.current_thread())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _notify("_after_fork_in_child"))
atexit.register(_notify, "_at_exit")
