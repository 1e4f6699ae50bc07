"""Timers for programs that hold very many timeouts: Kafka's hierarchical timing wheel, compiled.

>>> from hwheel import SystemTimer
>>> with SystemTimer() as timer:
...     timeout = timer.call_later(30, print, "no answer")
...     timeout.cancel()
True
"""

from hwheel.containers.delay_queue import DelayQueue
from hwheel.containers.expiring_dict import ExpiringDict
from hwheel.threading import Timer
from hwheel.timers.dump import DumpError, Loaded
from hwheel.timers.manual import ManualTimer
from hwheel.timers.system import SystemTimer
from hwheel.version import __version__
from hwheel_core import (
    BaseTimer,
    Bucket,
    DelayKey,
    HwheelError,
    Lateness,
    Level,
    ShutDown,
    TimerBatch,
    TimerClosed,
    TimerFull,
    TimerGroup,
    TimerMissed,
    TimerStats,
    TimerTask,
    TimingWheel,
    WheelSnapshot,
    use_huge_pages,
)

__all__ = [
    "BaseTimer",
    "Bucket",
    "DelayKey",
    "DelayQueue",
    "DumpError",
    "ExpiringDict",
    "HwheelError",
    "Lateness",
    "Level",
    "Loaded",
    "ManualTimer",
    "ShutDown",
    "SystemTimer",
    "Timer",
    "TimerBatch",
    "TimerClosed",
    "TimerFull",
    "TimerGroup",
    "TimerMissed",
    "TimerStats",
    "TimerTask",
    "TimingWheel",
    "WheelSnapshot",
    "__version__",
    "use_huge_pages",
]
