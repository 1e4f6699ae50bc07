"""A command that has taken a terminal's whole screen gives it back, also where it is told to end."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Inside the block SIGTERM and SIGHUP raise SystemExit, with the status that a shell says of them: so what is open
    is closed on the way. One that is ignored, as nohup has it, stays so."""
    before = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGTERM", "SIGHUP"):  # there is no SIGHUP on Windows
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                    before[number] = signal.signal(number, _end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
