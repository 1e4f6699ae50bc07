"""SystemTimer: the wheel on a real clock, with its threads."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from hwheel_core import DEFAULT_WHEEL_SIZE, TimerClosed

from hwheel.timers.arguments import whole_number
from hwheel.timers.base import BaseTimer
from hwheel.timers.dispatch import HandOver, hand_over_to
from hwheel.timers.lifecycle import follow_process


class SystemTimer(BaseTimer):
    """SystemTimer(name="timer", *, tick_ms=1, wheel_size=..., start_ms=None, executor=None, clock="monotonic",
                never_early=True, max_pending=None, on_error=None, fork="drop", reaper=True)

    A timer for very many timeouts (Kafka's SystemTimer.java). A context manager: leaving the block closes it.

    Arguments:
        name: its threads are called `reaper-<name>` and `executor-<name>`.
        tick_ms: resolution in ms.
        wheel_size: buckets a level of the wheel; Kafka's is 20.
        start_ms: where the wheel's clock starts, not after the timer's clock; None: now.
        executor: who runs callbacks. None: one thread of the timer's own, in order. "inline": the reaper itself, in
            order; a slow callback makes the next ones late. Any concurrent.futures.Executor: each task is submitted to
            it by itself, in order; it is not shut down by close().
        clock: "monotonic", "boottime" (goes on while the machine sleeps), or a callable that returns milliseconds. The
            reaper waits for the real time that the callable is short of. It may be set back (`time.time` is, at times):
            nothing runs before it says so, and what is pending is placed anew at the next add, O(pending). That it was
            set forward is noticed at the next add, or when the wait is over. It is read at each add and each hand-out.
        never_early: round deadlines up to the next tick, so that nothing runs before its time on the timer's clock.
            False: round down, as Kafka does.
        max_pending: refuse more pending timers than this with TimerFull. None: no limit.
        on_error: called as on_error(task or batch, exception) for an exception in a callback, in the thread that ran
            it (an executor of processes: here). None: threading.excepthook. Neither stops the timer.
        fork: what a forked child does with what was pending: "drop" cancels it there, "keep" runs it in both, also a
            task of call_every that another thread was running. What a foreign executor had been given is the parent's.
            Where a callback forks in a thread of the timer's own and returns, the child ends as it would with any
            thread: when no other is left that is no daemon.
        reaper: False: no reaper thread; call `advance_clock()` yourself.

    Raises:
        TypeError, ValueError, OverflowError: an argument is of the wrong type, out of range, or beyond 64 bits.

    Threads are started by the first add, and none keeps the interpreter alive: at exit, what is pending is dropped. A
    timer that is not closed lives on with its threads.

    Thread-safety: every method may be called from any thread, and inside callbacks.

    >>> from hwheel import SystemTimer
    >>> with SystemTimer(executor="inline") as timer:
    ...     task = timer.call_later(0.01, print, "ten milliseconds")
    ...     while task.pending: pass
    ten milliseconds
    """

    __module__ = "hwheel"

    def __init__(
        self,
        name: str = "timer",
        *,
        tick_ms: int = 1,
        wheel_size: int = DEFAULT_WHEEL_SIZE,
        start_ms: int | None = None,
        executor: Executor | str | None = None,
        clock: str | Callable[[], float] = "monotonic",
        never_early: bool = True,
        max_pending: int | None = None,
        on_error: Callable[[Any, BaseException], object] | None = None,
        fork: str = "drop",
        reaper: bool = True,
    ) -> None:
        super().__init__(name, on_error)
        if fork not in ("drop", "keep"):
            raise ValueError(f'fork must be "drop" or "keep", not {fork!r}')
        if clock == "manual":
            raise ValueError("clock must not be \"manual\": that is ManualTimer's")
        self._exiting = False
        self._hand_over: HandOver = hand_over_to(executor, reaper=bool(reaper))
        self._keep_at_fork = fork == "keep"
        self._set_up(tick_ms, wheel_size, start_ms, clock, bool(never_early), max_pending)
        follow_process(self)

    def advance_clock(self, timeout_ms: int) -> bool:
        """For a timer with reaper=False: waits for the next bucket that falls due, at most timeout_ms, takes what is
        due by then and hands it to the executor ("inline": runs it here).

        Returns True if there was something, False if the time ran out. Kafka's advanceClock. KeyboardInterrupt and
        SystemExit in a callback that runs here are raised here; what is left is for the next call.
        """
        if self._hand_over.has_reaper:
            raise RuntimeError("this timer has a reaper; make it with reaper=False to advance it yourself")
        timeout_ms = whole_number(timeout_ms, "timeout_ms")
        if self.closed:
            raise TimerClosed("the timer is closed")
        self._start()
        found: bool = self._advance_clock(min(timeout_ms, 9_000_000_000_000) * 1_000_000)
        self._hand_over.hand_out(self, in_caller=True)
        return found

    def _end_threads(self, run_pending: bool, timeout: float | None) -> None:
        """The part of close() that waits."""
        give_up = None if timeout is None or timeout > threading.TIMEOUT_MAX else time.monotonic() + timeout
        if run_pending:
            self._make_all_ready()
            self._hand_over.drain(self, give_up)
        self._stop(False)
        self._hand_over.join(give_up)
        self._hand_over.take_back(self)

    def _report(self, source: Any, error: BaseException) -> None:
        # A callback that is still running while the interpreter ends may be refused an add: nobody wants to see that.
        if not (self._exiting and isinstance(error, TimerClosed)):
            super()._report(source, error)

    def _start(self) -> None:
        self._after_fork()
        self._hand_over.start(self)

    def _keeps_at_fork(self) -> bool:
        return self._keep_at_fork

    def _after_fork_in_child(self) -> None:
        """No thread of the timer came along. The next add starts them, or what was kept does."""
        self._after_fork()
        if len(self) and not self.closed:
            self._start()

    def _at_exit(self) -> None:
        self._exiting = True
        self._stop(False)
        self._close()
        self._hand_over.leave()
