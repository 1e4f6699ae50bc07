"""What a thread does with an exception that nobody caught."""

import contextlib
import sys
import threading


def report_uncaught(error: BaseException, thread: threading.Thread) -> None:
    """Hands the exception to threading.excepthook as the thread's. Never raises."""
    try:
        threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
    except BaseException:  # as a thread does when its excepthook fails
        with contextlib.suppress(BaseException):
            sys.excepthook(*sys.exc_info())  # pyright: ignore[reportArgumentType]    (not None)
