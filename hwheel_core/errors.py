"""What a timer raises besides TypeError, ValueError and OverflowError."""


class TimerClosed(RuntimeError):
    """The timer has been closed and takes nothing more."""


class TimerFull(RuntimeError):
    """The timer holds max_pending timers already; nothing was added."""
