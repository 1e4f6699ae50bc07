"""What the locks of ours refuse, as the standard library's does."""

import threading

import pytest


def check_that_it_refuses_what_an_rlock_does(lock):
    """By the arguments of acquire(), and by a release() of what nobody has."""
    standard = threading.RLock()
    for arguments in [(False, 1), (True, -2), (True, float("nan")), (True, threading.TIMEOUT_MAX * 2), (True, "1")]:
        with pytest.raises(Exception) as expected:
            standard.acquire(*arguments)
        with pytest.raises(expected.type):
            lock.acquire(*arguments)
    with pytest.raises(RuntimeError):
        lock.release()
