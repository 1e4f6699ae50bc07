"""How threads are started here, because a signal handler may fork in the middle of it."""

import _thread
import contextvars
import os
import threading

from hwheel.timers.one_shot import OneShot

PATIENCE_S = 1.0


def start_thread(thread: threading.Thread) -> None:
    """thread.start(), for which the main thread has another one, that is gone right after it.

    Thread.start() is Python code, which notes the new thread and then waits until it has begun. A signal handler that
    forks there leaves the child with a wait for a thread that it does not have, or with one that ends with an error,
    because the fork has cleared the note. Signal handlers run in the main thread alone, and in a thread that is
    compiled code's none.

    In the child of such a fork this returns at once, and nobody knows whether the thread is there: who has started it
    looks whether there was a fork. It returns without it, too, where this thread has a lock of the module threading,
    because this is called by a finalizer or a signal handler in the middle of a start(): the thread comes when that has
    gone on.
    """
    if not hasattr(os, "fork") or threading.get_ident() != threading.main_thread().ident:
        thread.start()
        return
    started = OneShot()
    errors: list[BaseException] = []

    def start() -> None:
        try:
            thread.start()
        except BaseException as error:
            errors.append(error)
        finally:
            started.set()

    context = contextvars.copy_context()  # a thread may take over that of who starts it
    started.wait(PATIENCE_S, begin=lambda: _thread.start_new_thread(context.run, (start,)))
    if errors:
        raise errors.pop()
