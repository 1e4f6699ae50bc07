"""What hwheel raises besides TypeError, ValueError and OverflowError."""

import sys


class HwheelError(Exception):
    """The base of every error that is hwheel's own."""

    __module__ = "hwheel"


class TimerClosed(HwheelError, RuntimeError):
    """The timer has been closed and takes nothing more."""

    __module__ = "hwheel"


class TimerFull(HwheelError, RuntimeError):
    """The timer holds max_pending timers already; nothing was added."""

    __module__ = "hwheel"


class TimerMissed(HwheelError, TimeoutError):
    """A task that was awaited did not run, because it was later than its max_lateness."""

    __module__ = "hwheel"


if sys.version_info >= (3, 13):
    from queue import ShutDown as ShutDown
else:

    class ShutDown(HwheelError):
        """The queue is shut down: it takes nothing more, and is empty. Where there is one, queue.ShutDown."""

        __module__ = "hwheel.types"
