"""A comparison of a lock with threading.RLock."""

import threading

import pytest


def check_that_it_refuses_what_an_rlock_does(lock):
    """Invalid arguments of acquire(), and release() of a lock that is not held."""
    standard = threading.RLock()
    for arguments in [(False, 1), (True, -2), (True, float("nan")), (True, threading.TIMEOUT_MAX * 2), (True, "1")]:
        with pytest.raises(Exception) as expected:
            standard.acquire(*arguments)
        with pytest.raises(expected.type):
            lock.acquire(*arguments)
    with pytest.raises(RuntimeError):
        lock.release()
