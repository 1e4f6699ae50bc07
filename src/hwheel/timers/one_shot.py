"""OneShot: something that happens once, and may be waited for."""

import contextlib
import threading


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

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it has happened, or for `timeout` seconds. Returns whether it has."""
        if not self._is_set:
            try:
                if self._gate.acquire(True, -1 if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX)):
                    self._open()        # for the next one who waits
            except BaseException:
                if self._is_set:
                    self._open()
                raise
        return self._is_set

    def _open(self) -> None:
        with contextlib.suppress(RuntimeError):     # it is open
            self._gate.release()
