"""Value types that the timers return, and the common base class of the timers."""

from hwheel.timers.dump import Loaded
from hwheel_core import BaseTimer, Bucket, CallbackGroup, DelayKey, Lateness, Level, ShutDown, TimerStats, WheelSnapshot

__all__ = [
    "BaseTimer",
    "Bucket",
    "CallbackGroup",
    "DelayKey",
    "Lateness",
    "Level",
    "Loaded",
    "ShutDown",
    "TimerStats",
    "WheelSnapshot",
]
