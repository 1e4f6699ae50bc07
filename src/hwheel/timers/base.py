"""What every timer shares that need not be compiled: errors, stats, the context manager."""

import threading
from collections.abc import Callable
from typing import Any, Self

from hwheel_core import TimerCore

from hwheel.timers.stats import Lateness, TimerStats
from hwheel.timers.uncaught import report_uncaught


class BaseTimer(TimerCore):
    """The Python half of SystemTimer and ManualTimer."""

    def __init__(self, name: str, on_error: Callable[[Any, BaseException], object] | None) -> None:
        self._check_new()
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, not {type(name).__name__}")
        if on_error is not None and not callable(on_error):
            raise TypeError(f"on_error must be callable, not {type(on_error).__name__}")
        self.name = name
        self._on_error = on_error

    def stats(self) -> TimerStats:
        """The counters at this moment, taken under one hold of the lock."""
        *counters, p50, p99, worst = self._counters()
        return TimerStats(*[*counters, Lateness(p50, p99, worst)])

    def _report(self, source: Any, error: BaseException) -> None:
        """An exception in a callback: to on_error(task or batch, error), else to threading.excepthook. Never raises,
        but for a Ctrl-C that comes while on_error is at work in the main thread."""
        if self._on_error is not None:
            try:
                self._on_error(source, error)
                return
            except BaseException as another:
                if isinstance(another, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                    raise
                error = another
        report_uncaught(error, threading.current_thread())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self)} pending"
        return f"<{type(self).__name__} {self.name!r}, {state}>"
