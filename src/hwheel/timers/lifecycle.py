"""What the life of the process does to timers: a fork leaves them without threads, an exit must not wait for them.

There is no lock here, because a signal handler or a finalizer may make a timer while one is being made: whoever follows
the process is put into a dictionary and taken out of it by single steps that no thread can divide.
"""

import atexit
import functools
import itertools
import os
import sys
import threading
import time
import weakref
from typing import Any

from hwheel.timers.uncaught import report_uncaught

_numbers = itertools.count()
_followers: dict[int, weakref.ref[Any]] = {}


def follow_process(follower: Any) -> None:
    """From now on the follower, for as long as it lives, hears of forks and of the interpreter's end: its
    `_after_fork_in_child()` and `_at_exit()` are called."""
    number = next(_numbers)
    forget = _followers.pop  # by this name, because at exit a module's names may be gone

    def is_gone(_: Any) -> None:
        forget(number, None)

    _followers[number] = weakref.ref(follower, is_gone)


def followers() -> list[Any]:
    """Who follows the process now, in the order in which they were made."""
    found = [follower() for follower in [*_followers.values()]]
    return [one for one in found if one is not None]


def main_thread_has_ended() -> bool:
    """Whether the interpreter is at its end: the main thread has nothing more to run but what waits for that."""
    return getattr(threading, "_SHUTTING_DOWN", False) or not threading.main_thread().is_alive()


def end_forked_thread() -> None:
    """Ends the process, if its only thread is this one, in which a callback has forked and has now returned.

    A thread that forks is the main thread of the child. So, as at the end of a main thread, the other threads that are
    no daemons are waited for, and then nothing is: daemon threads, of timers that the child has used, are no reason to
    go on. Nothing is flushed and no exit handler runs, as always when a thread ends that has forked.
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


HANDLERS_PATIENCE_S = 10


class Fork:
    """A fork whose handlers are at work in the child.

    A thread that one of ours starts waits until all have returned: handlers of other modules come after ours, and
    make locks anew that nobody may be waiting for, those of concurrent.futures and of logging for instance. Whatever
    the thread ran could do that.

    Nothing tells that the last one has returned. But CPython calls them from a copy of its list of handlers, because
    one may register another, and gives the copy up at the end. So until then there is one reference more to ours. The
    frames of the thread that forked would say it too, but whoever looks at them while that thread runs may crash,
    where there is no GIL. Not for ever, because a handler may keep that copy, by gc.get_objects() for instance.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._references = _references_to_handler()
        self._give_up = time.monotonic() + HANDLERS_PATIENCE_S

    def wait(self) -> None:
        """Waits until it is over."""
        while _references_to_handler() >= self._references and time.monotonic() < self._give_up:
            time.sleep(0.001)

    def make_way(self) -> None:
        """Before somebody waits for the thread that waits here. If that is the thread that forked, in a later handler,
        this one must not go on waiting for it."""
        if self._thread == threading.get_ident():
            self._give_up = 0.0


_fork: Fork | None = None


def fork_at_work() -> Fork | None:
    """The fork whose handler this is called in."""
    return _fork


def _tell_of_fork() -> None:
    global _fork
    try:
        _fork = Fork()
        _tell_all("_after_fork_in_child")
    finally:
        _fork = None


# An object of its own: where there is no GIL, references to a function are not counted.
_after_fork_in_child = functools.partial(_tell_of_fork)


def _references_to_handler() -> int:
    return sys.getrefcount(_after_fork_in_child)


def _at_exit() -> None:
    _tell_all("_at_exit")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
