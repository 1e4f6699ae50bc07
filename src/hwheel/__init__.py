"""Timers for programs that hold very many timeouts: Kafka's hierarchical timing wheel, compiled.

>>> from hwheel import SystemTimer
>>> with SystemTimer() as timer:
...     timeout = timer.call_later(30, print, "no answer")
...     timeout.cancel()
True
"""

from hwheel_core import HwheelError, TimerBatch, TimerClosed, TimerFull, TimerTask, TimingWheel

from hwheel.threading import Timer
from hwheel.timers.manual import ManualTimer
from hwheel.timers.stats import Lateness, TimerStats
from hwheel.timers.system import SystemTimer
from hwheel.version import __version__

__all__ = [
    "HwheelError",
    "Lateness",
    "ManualTimer",
    "SystemTimer",
    "Timer",
    "TimerBatch",
    "TimerClosed",
    "TimerFull",
    "TimerStats",
    "TimerTask",
    "TimingWheel",
    "__version__",
]
