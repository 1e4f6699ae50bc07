"""What every timer shares that need not be compiled: its name, and what becomes of an exception."""

import threading
from collections.abc import Callable
from typing import Any

from hwheel.timers.uncaught import report_uncaught
from hwheel_core import BaseTimer, TimerTask

__all__ = ["BaseTimer", "OnError", "OnMissed", "begin_timer", "check_runs_here", "report"]

OnError = Callable[[Any, BaseException], object]
OnMissed = Callable[[TimerTask], object]


def begin_timer(timer: BaseTimer, name: str, on_error: OnError | None, on_missed: OnMissed | None) -> None:
    """The first part of a timer's __init__()."""
    timer._check_new()
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {type(name).__name__}")
    if on_error is not None and not callable(on_error):
        raise TypeError(f"on_error must be callable, not {type(on_error).__name__}")
    if on_missed is not None and not callable(on_missed):
        raise TypeError(f"on_missed must be callable, not {type(on_missed).__name__}")
    timer.name = name


def check_runs_here(timer: object, of: str) -> None:
    """Refuses a timer whose executor is one of processes, because what it is to run there could not be sent."""
    if getattr(timer, "_runs_elsewhere", False):
        raise ValueError(f"timer must not be one with an executor of processes: {of} cannot be sent there")


def report(on_error: OnError | None, source: Any, error: BaseException) -> None:
    """An exception in a callback: to on_error(task or batch, error), else to threading.excepthook. Never raises, but
    for a Ctrl-C that comes while on_error is at work in the main thread."""
    if on_error is not None:
        try:
            on_error(source, error)
            return
        except BaseException as another:
            if isinstance(another, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            error = another
    report_uncaught(error, threading.current_thread())
