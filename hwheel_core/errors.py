"""The exceptions of hwheel other than TypeError, ValueError, and OverflowError."""

import sys


class HwheelError(Exception):
    """Base class of all errors that hwheel defines."""

    __module__ = "hwheel"


class TimerClosed(HwheelError, RuntimeError):
    """The timer is closed and accepts no more timers."""

    __module__ = "hwheel"


class TimerFull(HwheelError, RuntimeError):
    """``max_pending`` timers are pending. Nothing was added."""

    __module__ = "hwheel"


class TimerMissed(HwheelError, TimeoutError):
    """An awaited task did not run, because it was later than its ``max_lateness``."""

    __module__ = "hwheel"


if sys.version_info >= (3, 13):
    from queue import ShutDown as ShutDown
else:

    class ShutDown(HwheelError):
        """The queue is shut down and empty, or refuses items. From Python 3.13 on this is ``queue.ShutDown``."""

        __module__ = "hwheel.types"
