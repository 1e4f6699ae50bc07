"""SystemTimer: the wheel on a real clock, with its threads."""

import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Literal

from hwheel.timers.base import BaseTimer, OnError, OnMissed, begin_timer, report, whole_number
from hwheel.timers.dispatch import InlineDispatcher, dispatcher_for
from hwheel.timers.dump import Loaded, Write, begin_dump, load_timer
from hwheel.timers.lifecycle import follow_process
from hwheel.timers.threads import deadline_after, seconds_left
from hwheel_core import DEFAULT_WHEEL_SIZE, TimerBatch, TimerClosed, TimerTask, check_timeout

MAX_ADVANCE_MS = 9_000_000_000_000  # still fits 64 bits of nanoseconds


class SystemTimer(BaseTimer):
    """A timer for huge numbers of timeouts: Kafka's SystemTimer on a real clock, with its threads.

    The first add starts the threads. They are daemons, so a pending timer does not keep the interpreter alive: at
    exit, pending tasks are dropped. A timer lives until it is closed, by ``close()``, ``drain()``, ``dump()``, or at
    the end of a ``with`` block. Times are seconds, ints or floats; arrays and names with ``_ms`` are in milliseconds.

    Args:
        name: Part of the threads' names, ``reaper-<name>`` and ``executor-<name>``.
        tick_ms: The resolution in milliseconds.
        wheel_size: The number of buckets of a level. Kafka's default is 20.
        start_ms: Where the wheel's clock starts, at the latest at the current time. Default: the current time.
        executor: Where callbacks run. None: in one thread of the timer's own, in order. ``"inline"``: in the reaper
            thread, in order; a slow callback delays the next one. A ``concurrent.futures.Executor``, or any object
            with a ``submit()``: each task is submitted, in order; ``close()`` does not shut the executor down.
        clock: ``"monotonic"``, ``"boottime"`` (which includes the time that the machine sleeps), or a callable that
            returns milliseconds. A callable is read at each add and each dispatch. If it goes back, the timer's time
            stands still until the clock has caught up. A clock that was set forward takes effect at the next add, or
            when the reaper wakes up.
        never_early: Round deadlines up to the next tick. False: round down, as Kafka does.
        max_pending: Refuse to hold more pending timers than this, with TimerFull. Default: no limit.
        on_error: Called as ``on_error(task_or_batch, exception)`` for an exception in a callback, in the thread that
            ran it (for an executor of processes, in this process). Default: ``threading.excepthook``.
        on_missed: Called as ``on_missed(task)`` instead of a callback that would be later than its ``max_lateness``.
            ``task.run()`` runs it anyway.
        fork: ``"drop"``: a forked child cancels the pending tasks. ``"keep"``: the child runs them, too, even a task
            of ``call_every`` that another thread was running at the fork, but not the tasks that an executor has. A
            child that is forked in a callback, in a thread of the timer, ends when the callback returns and no other
            non-daemon thread is left.
        reaper: False: start no reaper thread; the program calls ``advance_clock()``.

    Raises:
        TypeError: An argument has the wrong type. A bool is not accepted as a number.
        ValueError: A number is NaN, infinite, or out of range.
        OverflowError: A time is beyond 64 bits of milliseconds.

    Adding and cancelling are O(1). Thread-safe: any thread may call every method, also inside a callback.

    Example:
        >>> from hwheel import SystemTimer
        >>> with SystemTimer(executor="inline") as timer:
        ...     task = timer.call_later(0.01, print, "ten milliseconds")
        ...     while task.pending:
        ...         pass
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
        executor: Executor | Literal["inline"] | None = None,
        clock: Literal["monotonic", "boottime"] | Callable[[], float] = "monotonic",
        never_early: bool = True,
        max_pending: int | None = None,
        on_error: OnError | None = None,
        on_missed: OnMissed | None = None,
        fork: Literal["drop", "keep"] = "drop",
        reaper: bool = True,
    ) -> None:
        begin_timer(self, name, on_error, on_missed)
        self._on_error = on_error
        self._on_missed = on_missed
        if fork not in ("drop", "keep"):
            raise ValueError(f'fork must be "drop" or "keep", got {fork!r}')
        if clock == "manual":  # type: ignore[comparison-overlap]     # from a program without type checks
            raise ValueError('clock must not be "manual"; use a ManualTimer')
        self._exiting = False
        self._dispatcher: InlineDispatcher = dispatcher_for(executor, reaper=bool(reaper))
        self._keep_at_fork = fork == "keep"
        self._set_up(tick_ms, wheel_size, start_ms, clock, bool(never_early), max_pending)
        follow_process(self)

    def advance_clock(self, timeout_ms: int) -> bool:
        """Wait for the next bucket to expire, and dispatch its tasks. Only with ``reaper=False``.

        This is Kafka's advanceClock. With ``executor="inline"`` the tasks run in this thread. A KeyboardInterrupt or
        SystemExit that a callback raises leaves this method; the next call runs the remaining tasks.

        Args:
            timeout_ms: How many milliseconds to wait at most.

        Returns:
            True if a bucket expired, False after the timeout.

        Raises:
            TimerClosed: The timer is closed.
            RuntimeError: The timer has a reaper thread.

        Example:
            >>> from hwheel import SystemTimer
            >>> with SystemTimer(executor="inline", reaper=False) as timer:
            ...     task = timer.call_later(0.01, print, "ran in this thread")
            ...     while task.pending:
            ...         found = timer.advance_clock(1000)
            ran in this thread
        """
        if self.closed:
            raise TimerClosed("the timer is closed")
        if self._dispatcher.threads.has_reaper:
            raise RuntimeError("this timer has a reaper thread; create it with reaper=False to advance it yourself")
        timeout_ms = whole_number(timeout_ms, "timeout_ms")
        self._ensure_started()
        found = self._advance_clock(min(timeout_ms, MAX_ADVANCE_MS) * 1_000_000)
        self._dispatcher.dispatch(self, in_caller=True)
        return found

    def drain(self, timeout: float | None = None) -> list[TimerTask | TimerBatch]:
        """Refuse new timers, wait until the pending ones have run at their own deadlines, and close the timer.

        A task of ``call_every`` runs once more. For a container, this waits until all its entries have expired.

        Args:
            timeout: How many seconds to wait at most. Default: no limit.

        Returns:
            The tasks and batches that have not run, as ``close()`` does. The list is empty unless the timeout ended
            the wait.

        Raises:
            RuntimeError: This is called in a callback of the timer, for which it would have to wait.

        Example:
            >>> from hwheel import SystemTimer
            >>> timer = SystemTimer()
            >>> task = timer.call_later(0.01, int)
            >>> timer.drain()
            []
            >>> task.expired
            True
        """
        deadline = deadline_after(check_timeout(timeout))
        has_more = len(self) > 0  # also raises if __init__ was not called
        if self._dispatcher.is_in_callback(self):
            raise RuntimeError("drain() in a callback would wait for itself")
        if has_more and not self.closed:
            with contextlib.suppress(TimerClosed):  # another thread has closed the timer since the check
                self._ensure_started()  # needed in a forked child that could not start the threads
        self._close(True)
        with contextlib.suppress(TimerClosed):  # a timer that another thread has closed has no callable clock
            while self._has_more() and seconds_left(deadline) != 0 and not self._is_stopping():
                self._dispatcher.wait_for_expiry(self, deadline)
        is_done = not self._has_more()
        return self.close(run_pending=is_done, timeout=seconds_left(deadline) if is_done else 0)

    def load(self, data: bytes, *, overdue: Literal["run", "return"] = "run", now: float | None = None) -> Loaded:
        """Add all tasks of a ``dump()``, or none if this fails. Each keeps its deadline in wall-clock time.

        The data holds pickles, which can execute any code: load only data that your program has written.

        Args:
            data: The bytes that ``dump()`` returned.
            overdue: What to do with tasks whose deadline has passed. ``"run"``: run them at once. ``"return"``: return
                them without adding them.
            now: The current time, in seconds since 1970. Default: ``time.time()``.

        Returns:
            The tasks that were added, and those that were overdue.

        Raises:
            DumpError: The data is not a complete dump that this version can read.
            TimerClosed, TimerFull: The timer is closed, or would hold too many timers.

        O(n) for n tasks. Thread-safe.

        Example:
            >>> from hwheel import SystemTimer
            >>> with SystemTimer() as timer:
            ...     task = timer.call_later(30, print, "restored")
            ...     data = timer.dump()
            >>> with SystemTimer() as restarted:
            ...     len(restarted.load(data).tasks)
            1
        """
        return load_timer(self, data, overdue, now)

    @property
    def _runs_elsewhere(self) -> bool:
        return self._dispatcher.runs_elsewhere

    def _has_more(self) -> bool:
        """Return True while drain() has something to wait for."""
        while True:
            added = self.stats().added
            pending, alarms_running = self._outstanding()
            if pending > 0 or alarms_running == 0:
                return pending > 0
            if self._dispatcher.may_run_more(self):
                return True
            if self.stats().added == added:
                return False
            # Otherwise the alarm of a container has run and was set again between the two checks.

    def _end_threads(self, run_pending: bool, timeout: float | None) -> None:
        """Do the part of close() that waits."""
        deadline = deadline_after(timeout)
        if run_pending:
            self._make_all_ready()
            self._dispatcher.drain(self, deadline)
        self._stop(False)
        self._dispatcher.threads.join(deadline)
        self._dispatcher.wait_for_running(self, deadline)
        self._dispatcher.take_back(self)

    def _begin_dump(self, now: float | None) -> Write:
        return begin_dump(self, now)

    def _report_error(self, source: Any, error: BaseException) -> None:
        # An add in a callback that still runs while the interpreter exits may be refused, which is no error.
        if not (self._exiting and isinstance(error, TimerClosed)):
            report(self._on_error, source, error)

    def _report_missed(self, task: TimerTask) -> None:
        if self._on_missed is not None:
            self._on_missed(task)

    def _start_threads(self) -> None:
        self._after_fork()
        self._dispatcher.threads.start(self, self._dispatcher.dispatch)

    def _keeps_at_fork(self) -> bool:
        return self._keep_at_fork

    def _after_fork_in_child(self) -> None:
        """Start the threads again if the child keeps tasks. Otherwise the next add starts them."""
        self._after_fork()
        if len(self) and (not self.closed or self._is_finishing()):
            self._start_threads()

    def _at_exit(self) -> None:
        self._exiting = True
        self._close_at_exit()  # first, so that no add starts threads that are about to end
        self._stop(False)
        self._dispatcher.threads.leave()
