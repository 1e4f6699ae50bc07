"""Timers for programs that hold very many timeouts: Kafka's hierarchical timing wheel, compiled.

>>> from hwheel import SystemTimer
>>> with SystemTimer() as timer:
...     timeout = timer.call_later(30, print, "no answer")
...     timeout.cancel()
True
"""

from hwheel_core import HwheelError, TimerBatch, TimerClosed, TimerFull, TimerTask, TimingWheel

from hwheel.manual_timer import ManualTimer
from hwheel.stats import TimerStats
from hwheel.system_timer import SystemTimer
from hwheel.threading import Timer
from hwheel.version import __version__

__all__ = [
    "HwheelError",
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
