"""Reentrant locks: who has one, and what becomes of it in the child of a fork."""

from typing import Any


def has_it(lock: Any) -> bool:
    """Whether this thread has a threading.RLock."""
    owned: bool = lock._is_owned()
    return owned


def free_if_nobody_has_it(lock: Any) -> None:
    """In the child: frees a threading.RLock that a thread has which did not come along.

    What the thread that forked has stays its own, because it goes on inside, and will give the lock up.
    """
    if not has_it(lock):
        lock._at_fork_reinit()
