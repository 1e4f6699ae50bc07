"""Latch: an event that happens once."""

import contextlib
import threading


class Latch:
    """A threading.Event that cannot be cleared and that survives Ctrl-C.

    An Event holds a lock while Python code runs. So Ctrl-C at the wrong moment leaves it locked, and all other threads
    that use it then hang. Here each step is a single call of a lock.
    """

    __slots__ = ("_gate", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def set(self) -> None:
        """Wake all threads that wait, now and later. May be called again."""
        self._is_set = True
        self._open()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the latch is set, for at most `timeout` seconds. Return True if it is set."""
        if not self._is_set:
            try:
                self._gate.acquire(True, -1 if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX))
            finally:
                if self._is_set:
                    self._open()  # for the next waiting thread, even if this one was interrupted
        return self._is_set

    def _open(self) -> None:
        with contextlib.suppress(RuntimeError):  # already open
            self._gate.release()
