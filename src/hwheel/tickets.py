"""How a callback that runs in a foreign executor finds back to its timer.

An executor may be one of processes, to which no timer can be sent. So what is submitted is a function of this module, a
ticket, and the callback. In the process that gave the ticket out, its number leads to what was handed out, so that it is
run once and an exception is reported in the thread in which it happened. In any other process it leads nowhere, and the
exception goes home with the future.
"""

import os
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

Ticket: TypeAlias = tuple[int, int]

handed_out: dict[int, Any] = {}
"""The core's HandedOut objects by their numbers, until they are over. Of all timers, and in a forked child the parent's,
too."""


def ticket_of(handed: Any) -> Ticket:
    """The process, and a number in it."""
    return os.getpid(), handed.number


def run_with_ticket(ticket: Ticket, callback: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What an executor runs."""
    pid, number = ticket
    if pid != os.getpid():          # another process, perhaps a fork with a copy of what this one handed out
        callback(*args, **kwargs)
        return
    handed = handed_out.get(number)
    if handed is None:              # taken back by close(), or over: its future was done before it ran
        return
    with _RunningFor(handed.timer):
        handed.run()


def runs_here(timer: Any) -> bool:
    """Whether this thread is inside a callback of the timer, run by a foreign executor."""
    return any(one is timer for one in _running_for.timers)


class _Timers(threading.local):
    def __init__(self) -> None:
        self.timers: tuple[Any, ...] = ()


_running_for = _Timers()


class _RunningFor:
    """Inside the block, runs_here(timer) is true."""

    def __init__(self, timer: Any) -> None:
        self._timer = timer
        self._before = _running_for.timers

    def __enter__(self) -> None:
        _running_for.timers = (*self._before, self._timer)

    def __exit__(self, *exc_info: object) -> None:
        _running_for.timers = self._before
