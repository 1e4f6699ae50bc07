"""Timers for programs with huge numbers of timeouts: Kafka's hierarchical timing wheel, compiled.

>>> from hwheel import SystemTimer
>>> with SystemTimer() as timer:
...     timeout = timer.call_later(30, print, "no answer")
...     timeout.cancel()
True

Submodules such as ``hwheel.asyncio`` are imported on first access.
"""

import importlib
from typing import TYPE_CHECKING, Any

from hwheel.containers.delay_queue import DelayQueue
from hwheel.containers.expiring_dict import ExpiringDict
from hwheel.threading import Timer
from hwheel.timers.dump import DumpError
from hwheel.timers.manual import ManualTimer
from hwheel.timers.system import SystemTimer
from hwheel.version import __version__
from hwheel_core import HwheelError, TimerBatch, TimerClosed, TimerFull, TimerGroup, TimerMissed, TimerTask, TimingWheel

if TYPE_CHECKING:
    from hwheel import asyncio as asyncio
    from hwheel import c_api as c_api
    from hwheel import cachetools as cachetools
    from hwheel import live as live
    from hwheel import metrics as metrics
    from hwheel import purgatory as purgatory
    from hwheel import recorder as recorder
    from hwheel import replay as replay
    from hwheel import sched as sched
    from hwheel import spark as spark
    from hwheel import threading as threading
    from hwheel import tune as tune
    from hwheel import twisted as twisted
    from hwheel import types as types

__all__ = [
    "DelayQueue",
    "DumpError",
    "ExpiringDict",
    "HwheelError",
    "ManualTimer",
    "SystemTimer",
    "Timer",
    "TimerBatch",
    "TimerClosed",
    "TimerFull",
    "TimerGroup",
    "TimerMissed",
    "TimerTask",
    "TimingWheel",
    "__version__",
]

_SUBMODULES = frozenset(
    "asyncio c_api cachetools live metrics purgatory recorder replay sched spark threading tune twisted types".split()
)


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"hwheel.{name}")
    raise AttributeError(f"module 'hwheel' has no attribute {name!r}")
