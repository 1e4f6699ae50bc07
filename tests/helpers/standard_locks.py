"""A check that a lock raises the errors of threading.RLock."""

import threading

import pytest


def check_that_it_refuses_what_an_rlock_does(lock):
    """Check that the lock refuses invalid arguments of acquire(), and release() while it is not held."""
    standard = threading.RLock()
    for arguments in [(False, 1), (True, -2), (True, float("nan")), (True, threading.TIMEOUT_MAX * 2), (True, "1")]:
        with pytest.raises(Exception) as expected:
            standard.acquire(*arguments)
        with pytest.raises(expected.type):
            lock.acquire(*arguments)
    with pytest.raises(RuntimeError):
        lock.release()
