"""What stands behind all `hwheel.Timer`s of the process: one SystemTimer, two pools of threads, a fork, an exit.

The SystemTimer's reaper hands what falls due to a pool. Timers that are daemons run in daemon threads, others in
threads that are none, so that the interpreter's exit waits for exactly those functions that it should, and so that what
a function starts inherits the right flag.

At exit the standard library waits for every thread that is no daemon. Here a timer has no thread before it falls due.
So the main thread, when it has come to its end, waits until no such timer is pending; for those that other threads
start later still, a thread of its own does, the keeper. There is always a thread that is no daemon to run functions in,
because some versions of Python (3.12.0 and 3.12.1) start no more threads by then.

After that exit handlers run, and they may start timers, too. The SystemTimer is closed by an exit handler of ours, and
whoever comes later is refused. If a keeper waits at that time, then Python up to 3.14 drops what it waits for, as it
does with threads that exit handlers start. From 3.15 on it waits for such threads; so the keeper closes the SystemTimer
then, when it has come to its end.

Locking: `_lock` guards `_keeping`, that is, the decision that nobody needs to wait any more, and who closes. Only the
look at what is pending and the start of the keeper's thread happen under it. It is reentrant, for signal handlers.
"""

import sys
import threading
from typing import Any

from hwheel.threading.pool import Job, ThreadPool
from hwheel.timers.one_shot import OneShot
from hwheel.timers.start_thread import start_thread
from hwheel.timers.system import SystemTimer
from hwheel_core import RLock, TimerClosed

NAME = "Timer"  # so its reaper is called reaper-Timer
WAITS_AFTER_HANDLERS = sys.version_info >= (3, 15)  # for threads, once more when exit handlers have run


class _EngineTimer(SystemTimer):
    """Knows when its first timer is added, in this process."""

    def __init__(self, engine: "TimerEngine") -> None:
        super().__init__(NAME, executor="inline")
        self._engine = engine

    def _start(self) -> None:
        super()._start()
        self._engine.begin()

    def _at_exit(self) -> None:
        if not self._engine.closes_later():
            super()._at_exit()

    def close_at_exit(self) -> None:
        super()._at_exit()


class TimerEngine:
    """Made by the first Timer that starts; never closed."""

    def __init__(self) -> None:
        self.timer = _EngineTimer(self)
        self.exiting = False
        self.generation = 0  # of processes: one more after each fork
        self._set_up_threads()
        # Where concurrent.futures, too, waits at exit: before threads are joined. It is not possible any more once that
        # has begun; then this is as late as it can be.
        try:
            threading._register_atexit(self._before_threads_are_joined)  # type: ignore[attr-defined]
        except RuntimeError:
            self._before_threads_are_joined()

    def _set_up_threads(self) -> None:
        self._lock = RLock()
        self._keeping = False
        self._keepers: set[threading.Thread] = set()  # those that have come to no end yet
        self._keeper_closes = False
        self._begun = False
        self._pools = {
            False: ThreadPool(daemon=False, call_later=self.timer.call_later, least=1),
            True: ThreadPool(daemon=True, call_later=self.timer.call_later),
        }

    def begin(self) -> None:
        """Before the first timer, also in the child of a fork."""
        self._begun = True
        for pool in self._pools.values():
            pool.fill()

    def submit(self, job: Job, daemon: bool) -> None:
        """Has the job run in a thread that is a daemon, or is none."""
        self._pools[bool(daemon)].submit(job)

    def keep_interpreter(self) -> None:
        """While the interpreter exits: makes it wait for timers that are pending and no daemons."""
        with self._lock:
            if not self._keeping:
                keeper = threading.Thread(target=self._keep_then_close, name="keeper-Timer", daemon=False)
                self._keepers.add(keeper)
                try:
                    start_thread(keeper)
                    self._keeping = True
                finally:
                    if keeper.ident is None:  # it was refused, or interrupted before it was there
                        self._keepers.discard(keeper)

    def closes_later(self) -> bool:
        """Asked when the interpreter is to close the timer: whether a keeper is going to."""
        with self._lock:
            self._keeper_closes = WAITS_AFTER_HANDLERS and bool(self._keepers)
            return self._keeper_closes

    def _keep_then_close(self) -> None:
        try:
            self._keep()
        except TimerClosed:
            pass  # the interpreter has come to its end meanwhile, and waits for no timer any more
        finally:
            with self._lock:
                self._keepers.discard(threading.current_thread())
                closes = self._keeper_closes and not self._keepers
            if closes:
                self.timer.close_at_exit()

    def _keep(self) -> None:
        while pending := self._pending_or_done():
            for timer in pending:
                timer._wait_until_over()  # not join(), which a subclass may have made into something else
        # What has left the wheel may still be on its way to a pool. The reaper comes to this after it.
        handed_over = OneShot()
        handed_over.wait(begin=lambda: self.timer.call_later(0, handed_over.set))

    def _pending_or_done(self) -> list[Any]:
        with self._lock:
            # Read once, because a task that comes to its end meanwhile has none any more.
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
        """No thread came along. What was pending is dropped, by the SystemTimer."""
        self.generation += 1
        for pool in self._pools.values():
            pool.abandon()
        self._set_up_threads()
