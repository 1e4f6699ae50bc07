"""How a callback that runs in a foreign executor finds back to its timer.

An executor may be one of processes, to which no timer can be sent. So what is submitted is a function of this module, a
number, and the callback. In the process that gave the number out, the number leads to the timer and the task, so that an
exception is reported in the thread in which it happened. In any other process it leads nowhere, and the exception goes
home with the future.
"""

import itertools
import os
import threading
from collections.abc import Callable
from typing import Any

_numbers = itertools.count()
_given: dict[int, tuple[int, Any, Any]] = {}


def give_ticket(timer: Any, source: Any) -> int:
    """A number for the run of a task or batch of this timer."""
    ticket = next(_numbers)
    _given[ticket] = (os.getpid(), timer, source)
    return ticket


def take_ticket(ticket: int) -> None:
    """The run is over; the number means nothing any more."""
    _given.pop(ticket, None)


def run_with_ticket(ticket: int, callback: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What an executor runs."""
    pid, timer, source = _given.get(ticket, (0, None, None))
    if timer is None or pid != os.getpid():          # another process, perhaps a fork with a copy of the numbers given so far
        callback(*args, **kwargs)
        return
    if getattr(source, "cancelled", False):
        return                      # a task of call_every, cancelled while it waited here
    _running_for.timers.append(timer)
    try:
        callback(*args, **kwargs)
    except BaseException as error:
        timer._report(source, error)
    finally:
        _running_for.timers.pop()


def runs_here(timer: Any) -> bool:
    """Whether this thread is inside a callback of the timer, run by a foreign executor."""
    return any(one is timer for one in _running_for.timers)


class _RunningFor(threading.local):
    def __init__(self) -> None:
        self.timers: list[Any] = []


_running_for = _RunningFor()
