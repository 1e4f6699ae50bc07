"""The Python part that SystemTimer and ManualTimer share: checks of arguments, and reports of errors."""

import operator
import threading
from collections.abc import Callable
from typing import Any

from hwheel_core import BaseTimer, TimerTask, report_uncaught

__all__ = [
    "BaseTimer",
    "OnError",
    "OnMissed",
    "begin_timer",
    "check_runs_here",
    "report",
    "whole_number",
]

OnError = Callable[[Any, BaseException], object]
OnMissed = Callable[[TimerTask], object]


def begin_timer(timer: BaseTimer, name: str, on_error: OnError | None, on_missed: OnMissed | None) -> None:
    """Check the arguments that all timers take, and set the name. Call this first in ``__init__()``."""
    timer._check_new()
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, got {type(name).__name__}")
    if on_error is not None and not callable(on_error):
        raise TypeError(f"on_error must be callable, got {type(on_error).__name__}")
    if on_missed is not None and not callable(on_missed):
        raise TypeError(f"on_missed must be callable, got {type(on_missed).__name__}")
    timer.name = name


def check_runs_here(timer: object, what: str) -> None:
    """Raise ValueError if the timer runs its callbacks in other processes, to which `what` cannot be sent."""
    if getattr(timer, "_runs_elsewhere", False):
        raise ValueError(f"timer must not have an executor of processes: {what} cannot be sent to another process")


def whole_number(value: Any, name: str) -> int:
    """Return the value as an int. Raise TypeError if it is not an integer, ValueError if it is negative."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    if value < 0:
        raise ValueError(f"{name} must not be negative, got {value}")
    return operator.index(value)


def report(on_error: OnError | None, source: Any, error: BaseException) -> None:
    """Pass an exception of a callback to ``on_error(source, error)``, or else to ``threading.excepthook``.

    The only exception that leaves this function is a Ctrl-C in the main thread during ``on_error``.
    """
    if on_error is not None:
        try:
            on_error(source, error)
            return
        except BaseException as another:
            if isinstance(another, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            error = another
    report_uncaught(error, threading.current_thread())
