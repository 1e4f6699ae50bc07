"""What stands behind all `hwheel.Timer`s of the process: one SystemTimer, two pools of threads, a fork, an exit.

The SystemTimer's reaper hands what falls due to a pool. Timers that are daemons run in daemon threads, others in threads
that are none, so that the interpreter's exit waits for exactly those functions that it should, and so that what a
function starts inherits the right flag.

At exit the standard library waits for every thread that is no daemon. Here a timer has no thread before it falls due, so
from then on one thread, the keeper, stays until no such timer is pending.

Locking: `_lock` guards `_keeper` and the decision that it is not needed any more. Only the keeper's look at what is
pending and the start of its thread happen under it.
"""

import threading
from typing import TYPE_CHECKING, Any

from hwheel.system_timer import SystemTimer
from hwheel.thread_pool import Job, ThreadPool

if TYPE_CHECKING:
    from hwheel.threading import Timer

NAME = "Timer"          # so its reaper is called reaper-Timer


class TimerEngine:
    """Made by the first Timer that starts; never closed."""

    def __init__(self) -> None:
        self.clock = SystemTimer(NAME, executor="inline")
        self.exiting = False
        self.generation = 0         # of processes: one more after each fork
        self._set_up_threads()
        # Where concurrent.futures, too, waits at exit: before threads are joined. It is not possible any more once that
        # has begun; then this is as late as it can be.
        try:
            threading._register_atexit(self._before_threads_are_joined)  # type: ignore[attr-defined]
        except RuntimeError:
            self._before_threads_are_joined()

    def _set_up_threads(self) -> None:
        self._lock = threading.RLock()
        self._keeper: threading.Thread | None = None
        self._pools = {daemon: ThreadPool(daemon=daemon, call_later=self.clock.call_later) for daemon in (False, True)}

    def submit(self, job: Job, daemon: bool) -> None:
        """Has the job run in a thread that is a daemon, or is none."""
        self._pools[bool(daemon)].submit(job)

    def keep_interpreter(self) -> None:
        """While the interpreter exits: makes it wait for timers that are pending and no daemons."""
        with self._lock:
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._keep, name="keeper-Timer", daemon=False)
                self._keeper.start()

    def _keep(self) -> None:
        while pending := self._pending_or_leave():
            for timer in pending:
                timer.join()
        # What has left the wheel may still be on its way to a pool. The reaper comes to this after it.
        handed_over = threading.Event()
        self.clock.call_later(0, handed_over.set)
        handed_over.wait()

    def _pending_or_leave(self) -> "list[Timer]":
        with self._lock:
            timers: list[Any] = [task.args[0] for task in self.clock.pending() if task.args]
            pending = [timer for timer in timers if not timer.daemon]
            if not pending:
                self._keeper = None
            return pending

    def _before_threads_are_joined(self) -> None:
        self.exiting = True
        self.keep_interpreter()
        for pool in self._pools.values():
            pool.leave()

    def after_fork_in_child(self) -> None:
        """No thread came along. What was pending is dropped, by the SystemTimer."""
        self.generation += 1
        for pool in self._pools.values():
            pool.abandon()
        self._set_up_threads()
