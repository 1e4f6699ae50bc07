"""OneShot: something that happens once, and may be waited for."""

import contextlib
import itertools
import os
import threading
from collections.abc import Callable

_numbers = itertools.count()
_waits: "dict[int, tuple[int, OneShot]]" = {}  # those under way: in which thread, and for what


class OneShot:
    """What threading.Event is until it is set. An Event is locked by Python code: a Ctrl-C at the wrong moment in one
    thread leaves it locked, and all others that set it or wait for it hang. Here each step is one call of a lock."""

    __slots__ = ("_gate", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def set(self) -> None:
        """It has happened. May be called again."""
        self._is_set = True
        self._open()

    def wait(self, timeout: float | None = None, *, begin: Callable[[], object] = int) -> bool:
        """Waits until it has happened, or for `timeout` seconds. Returns whether it has.

        In the child of a fork by a signal handler in the middle of this, the wait is over: who was to set it is not
        there.

        Arguments:
            begin: what to call first, to have it set; a fork in the middle of that ends the wait, too.
        """
        if not self._is_set:
            number = next(_numbers)
            try:
                _waits[number] = threading.get_ident(), self
                begin()
                if self._gate.acquire(True, -1 if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX)):
                    self._open()  # for the next one who waits
            except BaseException:
                if self._is_set:
                    self._open()
                raise
            finally:
                _waits.pop(number, None)
        return self._is_set

    def _open(self) -> None:
        with contextlib.suppress(RuntimeError):  # it is open
            self._gate.release()


def _after_fork_in_child() -> None:
    """Only the thread that forked came along."""
    waits = [*_waits.values()]
    _waits.clear()
    for thread, awaited in waits:
        if thread == threading.get_ident():
            awaited._open()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
