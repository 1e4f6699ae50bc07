"""The threads of a SystemTimer: the reaper and, with ``executor=None``, the executor thread.

The reaper waits in compiled code without the GIL. If the timer has an executor thread, the reaper needs no GIL at all:
it moves expired tasks to a list on which that thread waits. Otherwise the reaper returns to Python with each expired
bucket and dispatches the tasks itself. The loop of each thread is also compiled, so another thread cannot end it by
raising an exception there with `PyThreadState_SetAsyncExc`.

There is no lock here. A thread takes its role when it begins to run, and ends if the role is taken. So a Ctrl-C may
interrupt the start of a thread, and a signal handler may start a thread while another one is being started.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from hwheel.timers.lifecycle import end_forked_thread
from hwheel_core import BaseTimer

REAPER, EXECUTOR = range(2)  # enum Role in the core
NAMES = ("reaper", "executor")
REAPER_EXIT_S = 1.0  # how long the interpreter's exit waits for a reaper

Turn: TypeAlias = Callable[[int], bool]  # turn(generation): wait, work; False: the thread ends


class TimerThreads:
    """The threads of one timer. They are daemons."""

    def __init__(self, *, reaper: bool, executor: bool) -> None:
        self.has_reaper = reaper
        self.has_executor = executor
        self._roles: dict[threading.Thread, int] = {}

    def start(self, timer: BaseTimer, dispatch: Callable[[BaseTimer], None]) -> None:
        """Start the threads. If one cannot be started, the add that caused this raises and adds nothing."""

        def reap(generation: int) -> bool:
            dispatch(timer)  # first, because an asynchronous exception may have interrupted the previous dispatch
            return timer._reap(generation)

        def run_ready(generation: int) -> bool:
            if not timer._await_work(generation):
                return False
            timer._run_ready()
            return True

        timer._open_waker(self.has_executor)
        if self.has_executor:
            timer._start_role(EXECUTOR, lambda: self._start_thread(timer, EXECUTOR, run_ready))
        if self.has_reaper:
            timer._start_role(REAPER, lambda: self._start_thread(timer, REAPER, reap))
        timer._set_started()

    def _start_thread(self, timer: BaseTimer, role: int, turn: Turn) -> None:
        name = f"{NAMES[role]}-{timer.name}"
        arguments = (role, turn, end_forked_thread)
        thread = threading.Thread(target=timer._run_thread, args=arguments, name=name, daemon=True)
        self._roles[thread] = role  # first, because an interrupted start may have started the thread
        thread.start()

    def include_current(self) -> bool:
        """Return True if the current thread is one of these threads."""
        return threading.current_thread() in self._roles

    def any_alive(self) -> bool:
        for thread in [*self._roles]:  # a generator would swallow a Ctrl-C at its beginning
            if thread.is_alive():
                return True
        return False

    def join(self, deadline: float | None) -> None:
        """Wait until all these threads but the current one have ended, at most until the deadline."""
        for thread in [*self._roles]:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(seconds_left(deadline))

    def leave(self) -> None:
        """At the interpreter's exit, wait for the reaper if it runs no Python code: then it ends at once."""
        if self.has_executor:
            for thread, role in [*self._roles.items()]:
                if role == REAPER and thread.is_alive():
                    thread.join(REAPER_EXIT_S)


def deadline_after(timeout: float | None) -> float | None:
    """Return the monotonic time in `timeout` seconds. None: no limit, or more than a lock can wait."""
    return None if timeout is None or timeout > threading.TIMEOUT_MAX else time.monotonic() + timeout


def seconds_left(deadline: float | None) -> float | None:
    """Return the seconds until the deadline, at least 0. None: no limit."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())
