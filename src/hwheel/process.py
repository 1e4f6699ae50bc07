"""What the life of the process does to timers: a fork leaves them without threads, an exit must not wait for them.

There is no lock here, because a signal handler or a finalizer may make a timer while one is being made: whoever follows
the process is put into a dictionary and taken out of it by single steps that no thread can divide.
"""

import atexit
import itertools
import os
import threading
import weakref
from typing import Any

from hwheel.uncaught import report_uncaught

_numbers = itertools.count()
_followers: dict[int, weakref.ref[Any]] = {}


def follow_process(follower: Any) -> None:
    """From now on the follower, for as long as it lives, hears of forks and of the interpreter's end: its
    `_after_fork_in_child()` and `_at_exit()` are called."""
    number = next(_numbers)
    _followers[number] = weakref.ref(follower, lambda _, forget=_followers.pop: forget(number, None))


def main_thread_has_ended() -> bool:
    """Whether the interpreter is at its end: the main thread has nothing more to run but what waits for that."""
    return getattr(threading, "_SHUTTING_DOWN", False) or not threading.main_thread().is_alive()


def end_forked_thread() -> None:
    """Ends the process, if its only thread is this one, in which a callback has forked and has now returned.

    A thread that forks is the main thread of the child. So, as at the end of a main thread, the other threads that are
    no daemons are waited for, and then nothing is: daemon threads, of timers that the child has used, are no reason to go
    on. Nothing is flushed and no exit handler runs, as always when a thread ends that has forked.
    """
    if threading.main_thread() is threading.current_thread():
        try:
            threading._shutdown()  # type: ignore[attr-defined]
        finally:
            os._exit(0)


def _tell_all(what: str) -> None:
    """Calls a method of each follower. An error of one, or an interruption, keeps no other from hearing of it."""
    untold = [*_followers.values()]
    while untold:
        try:
            while untold:
                follower = untold.pop()()
                if follower is not None:
                    getattr(follower, what)()
        except BaseException as error:
            report_uncaught(error, threading.current_thread())


def _after_fork_in_child() -> None:
    _tell_all("_after_fork_in_child")


def _at_exit() -> None:
    _tell_all("_at_exit")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
