"""The process-wide engine behind all `hwheel.Timer`s: one SystemTimer and two pools of threads.

The SystemTimer's reaper passes expired timers to a pool. Daemon timers run in daemon threads, the others in non-daemon
threads. So the interpreter's exit waits for the functions of non-daemon timers only. A thread that a function starts
inherits the flag of the timer.

At exit the standard library waits for every non-daemon thread, but here a pending timer has no thread. So before the
interpreter exits, the main thread waits until no non-daemon timer is pending. If another thread starts a timer after
that, a thread called the keeper waits for it. The pool for non-daemon timers always has a thread, because Python 3.12.0
and 3.12.1 start no threads during exit. Then exit handlers run. One of them closes the SystemTimer, and later starts
are refused.

Locking: `_lock` guards `_keeping`, which is true while a thread waits for pending timers. The lock is reentrant,
because a signal handler may start a timer.
"""

import contextlib
import functools
import threading
from typing import Any

from hwheel.timers.lifecycle import end_forked_thread
from hwheel.timers.system import SystemTimer
from hwheel_core import Latch, RLock, ThreadPool, TimerClosed, TimerExpiry, insist

NAME = "Timer"  # the reaper's thread is called reaper-Timer
KEEPER_POLL_S = 1.0  # a wait at exit checks at this interval whether exit handlers have closed the timer


class _EngineTimer(SystemTimer):
    """A SystemTimer that also starts the threads of the engine."""

    def __init__(self, engine: "TimerEngine") -> None:
        super().__init__(NAME, executor="inline")
        self._engine = engine

    def _start_threads(self) -> None:
        super()._start_threads()
        self._engine.begin()


class TimerEngine:
    """The engine, which the first started Timer creates. It is never closed."""

    def __init__(self) -> None:
        self.timer = _EngineTimer(self)
        self.exiting = False
        self.generation = 0  # incremented by each fork
        self._set_up_threads()
        # Wait at exit where concurrent.futures also waits: before the main thread joins the other threads. Once this
        # has begun, nothing can be registered any more.
        try:
            threading._register_atexit(self._before_threads_are_joined)  # type: ignore[attr-defined]
        except RuntimeError:
            self._before_threads_are_joined()

    def _set_up_threads(self) -> None:
        self._lock = RLock()
        self._keeping = False
        self._begun = False
        make_pool = functools.partial(ThreadPool, call_later=self.timer.call_later, on_forked=end_forked_thread)
        self._pools = {False: make_pool(daemon=False, minimum=1), True: make_pool(daemon=True)}
        self.expire = TimerExpiry(self._pools)  # the callback of all Timers

    def begin(self) -> None:
        """Start the threads before the first timer, also in the child of a fork."""
        self._begun = True
        for pool in self._pools.values():
            pool.fill()

    def keep_interpreter(self) -> None:
        """Make the exiting interpreter wait for the pending non-daemon timers."""
        with self._lock:
            if not self._keeping:
                threading.Thread(target=insist, args=(self._keep,), name="keeper-Timer", daemon=False).start()
                self._keeping = True

    def _keep(self) -> None:
        """Wait until no non-daemon timer is pending, or until exit handlers have closed the SystemTimer."""
        while not self.timer.closed and (pending := self._pending_or_done()):
            for timer in pending:
                # Not join(), which a subclass may override.
                while not (timer._wait_until_over(KEEPER_POLL_S) or self.timer.closed):
                    pass
        # An expired timer may be on its way to a pool. The reaper dispatches this task after it.
        handed_over = Latch()
        with contextlib.suppress(TimerClosed):
            self.timer.call_later(0, handed_over.set)
            while not (handed_over.wait(KEEPER_POLL_S) or self.timer.closed):
                pass

    def _pending_or_done(self) -> list[Any]:
        """Return the pending non-daemon timers. If the list is empty, the caller no longer delays the exit."""
        with self._lock:
            # Read args only once, because a task drops them when it ends.
            timers: list[Any] = [args[0] for task in self.timer.pending() if (args := task.args)]
            pending = [timer for timer in timers if not timer.daemon]
            self._keeping = bool(pending)
            return pending

    def _before_threads_are_joined(self) -> None:
        with self._lock:
            self.exiting = True
            self._keeping = self._begun
        try:
            if self._begun:
                self._keep()
        finally:
            for pool in self._pools.values():
                pool.leave()

    def after_fork_in_child(self) -> None:
        """Replace the threads, which do not exist in the child. The SystemTimer drops the pending timers."""
        self.generation += 1
        for pool in self._pools.values():
            pool.abandon()
        self._set_up_threads()
