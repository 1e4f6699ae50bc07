"""`exits.py STATE EXECUTOR ENDING`: a program that comes to its end while its timer is in some state.

What a program ends with is the third word's status in ENDINGS, after at most a moment, with nothing on its standard
output, and on that of errors what Python itself says of an end of that kind.
"""

import atexit
import os
import random
import signal
import sys
import threading
import time
from array import array
from collections.abc import Callable
from typing import NoReturn

from hwheel import SystemTimer, TimerClosed

STATUS = 3


# --- what the timer is at -------------------------------------------------------------------------------------------


def pending(timer: SystemTimer) -> None:
    """Much is pending."""
    for i in range(20_000):
        timer.call_later(60 + i / 10, print, i)
    timer.call_many(array("q", range(60_000, 160_000)), print)


def due(timer: SystemTimer) -> None:
    """Much falls due at about the same time as the end comes."""
    for i in range(20_000):
        timer.call_later(i / 500_000, int)
    timer.call_many(array("q", [i // 1000 for i in range(50_000)]), len)


def running(timer: SystemTimer) -> None:
    """A callback does not come back, and others are behind it."""
    entered = threading.Event()
    pending(timer)
    timer.call_later(0, lambda: (entered.set(), time.sleep(1000)))
    timer.call_later(0.001, print, "behind the first")
    entered.wait()


def refused(work: Callable[[], object]) -> None:
    """In a daemon thread, until the timer takes no more: at the end of the interpreter it does not."""
    try:
        while True:
            work()
    except (TimerClosed, RuntimeError):  # no new thread can be started
        pass


def busy(timer: SystemTimer) -> None:
    """Threads and callbacks add and cancel as fast as they can."""

    def again(i: int) -> None:
        timer.call_later(60, print).cancel()
        timer.call_later(i % 2 / 1000, again, i + 1)

    for i in range(10):
        timer.call_later(0, again, i)
    delays = array("q", [1, 2, 60_000] * 100)
    for work in (lambda: timer.call_later(60, print).cancel(), lambda: timer.call_many(delays, len).cancel()):
        threading.Thread(target=refused, args=(work,), daemon=True).start()


def closing(timer: SystemTimer) -> None:
    """Another thread is in drain(), and others in close() of timers that they have made."""
    pending(timer)

    def one_after_the_other() -> None:
        with SystemTimer() as other:
            other.call_later(60, print)
            other.call_later(0, int)

    threading.Thread(target=timer.drain, daemon=True).start()
    threading.Thread(target=refused, args=(one_after_the_other,), daemon=True).start()


STATES = {one.__name__: one for one in (pending, due, running, busy, closing)}


# --- how the program ends -------------------------------------------------------------------------------------------


def in_a_callback(how: Callable[[int], object]) -> None:
    """On a timer of its own, because the other may be busy, or closed."""
    other = SystemTimer()
    other.call_later(0, how, STATUS)
    after = threading.Event()
    other.call_later(0.001, after.set)
    after.wait()


def adds_at_exit() -> None:
    """A handler that was registered after the package's own runs before it: all works there, but Python 3.12.0 and
    3.12.1 start no thread any more, so the timer's have to be there."""
    other, begun = SystemTimer(), threading.Event()
    other.call_later(0, begun.set)
    begun.wait()

    def late() -> None:
        ran = threading.Event()
        other.call_later(0, ran.set)
        ran.wait()

    atexit.register(late)


def exits_by_a_signal() -> None:
    def handler(*_: object) -> NoReturn:
        sys.exit(STATUS)

    signal.signal(signal.SIGTERM, handler)


def fails() -> NoReturn:
    raise ValueError("on purpose")


# What is done, and the status. "wait": for a signal, which the program that started this one sends.
ENDINGS: dict[str, tuple[Callable[[], object], int]] = {
    "return": (int, 0),
    "sys.exit": (lambda: sys.exit(STATUS), STATUS),
    "an error": (fails, 1),
    "os._exit": (lambda: os._exit(STATUS), STATUS),
    "os._exit in a callback": (lambda: in_a_callback(os._exit), STATUS),
    "sys.exit in a callback": (lambda: in_a_callback(sys.exit), 0),  # it ends nothing, as in a thread
    "adds in atexit": (adds_at_exit, 0),
    "SIGTERM": (int, -signal.SIGTERM),
    "SIGTERM to sys.exit": (exits_by_a_signal, STATUS),
    "SIGINT": (int, -signal.SIGINT),
    "SIGKILL": (int, -signal.SIGKILL),
}
SAYS = {"an error": "ValueError: on purpose", "SIGINT": "KeyboardInterrupt"}


def main() -> None:
    """The program."""
    state, executor, ending = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what runs in the background ignore it
    timer = SystemTimer(executor="inline" if executor == "inline" else None)
    STATES[state](timer)
    if ending.startswith("SIG"):
        ENDINGS[ending][0]()
        os.write(1, b"ready\n")
        while True:
            time.sleep(1)
    time.sleep(random.random() / 20)
    ENDINGS[ending][0]()


if __name__ == "__main__":
    main()
