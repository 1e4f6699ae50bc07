"""SystemTimer: the wheel on a real clock, with its threads."""

import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Literal

from hwheel.timers.arguments import whole_number
from hwheel.timers.base import BaseTimer, OnError, OnMissed, begin_timer, report
from hwheel.timers.dispatch import HandOver, end_of, hand_over_to, time_left
from hwheel.timers.dump import Loaded, Write, begin_dump, load_timer
from hwheel.timers.lifecycle import follow_process
from hwheel_core import DEFAULT_WHEEL_SIZE, TimerBatch, TimerClosed, TimerTask, check_timeout


class SystemTimer(BaseTimer):
    """A timer for very many timeouts: Kafka's SystemTimer, on a real clock, with its threads.

    Adding: call_later(), call_at(), call_every(), call_many(), add(), group(), load(). Looking:
    len(timer), pending(), time(), stats(). Ending: task.cancel(), drain(), dump(), close(), or a
    `with` block.

    name: in the names of its threads, `reaper-<name>` and `executor-<name>`.
    tick_ms: the resolution in ms. wheel_size: buckets a level; Kafka's is 20.
    start_ms: where the wheel's clock starts, not after the timer's clock; None: now.
    executor: who runs callbacks. None: one thread of the timer's own, in order. "inline": the
        reaper itself, in order; a slow callback delays the next. Any concurrent.futures.Executor:
        each task is submitted to it by itself, in order; close() does not shut it down.
    clock: "monotonic", "boottime" (goes on while the machine sleeps), or a callable that returns
        ms, read at each add and hand-out. The reaper waits for the real time that it is short of.
        It may be set back: nothing runs before it says so, and the next add places anew what is
        pending, O(pending). Set forward, that shows at the next add, or when the wait is over.
    never_early: round deadlines up to the next tick. False: down, as Kafka does.
    max_pending: refuse more pending timers than this with TimerFull. None: no limit.
    on_error: called as on_error(task or batch, exception) for an exception in a callback, in the
        thread that ran it (processes: here). None: threading.excepthook. Neither stops the timer.
    on_missed: called as on_missed(task) in the place of a callback that is not run because it would
        be later than its max_lateness; task.run() runs it after all. See stats().missed, too.
    fork: "drop": a forked child cancels what was pending; "keep": it runs it, too, also a task of
        call_every that another thread was running; but nothing that a foreign executor had. A
        callback that forks in a thread of the timer's ends the child by returning, unless another
        thread there is no daemon.
    reaper: False: no reaper thread; call advance_clock() yourself.

    The first add starts the threads, and none keeps the interpreter alive: at exit, what is pending
    is dropped. A timer that is not closed lives on. Every method may be called from any thread, and
    inside callbacks. Times are seconds, ints or floats; in names with _ms, and arrays, ms. Errors:
    TypeError (a bool is no number), ValueError (NaN, infinite, out of range), OverflowError (beyond
    64 bits of ms), and of what adds TimerClosed and TimerFull, too.

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
            raise ValueError(f'fork must be "drop" or "keep", not {fork!r}')
        if clock == "manual":  # type: ignore[comparison-overlap]     # from a program that nobody has checked
            raise ValueError('clock must not be "manual": that is ManualTimer\'s')
        self._exiting = False
        self._hand_over: HandOver = hand_over_to(executor, reaper=bool(reaper))
        self._keep_at_fork = fork == "keep"
        self._set_up(tick_ms, wheel_size, start_ms, clock, bool(never_early), max_pending)
        follow_process(self)

    def advance_clock(self, timeout_ms: int) -> bool:
        """With reaper=False: waits for the next bucket, at most timeout_ms; hands out what is due.
        True if there was something, False if the time ran out: Kafka's advanceClock. What runs here
        ("inline") may raise KeyboardInterrupt and SystemExit; the rest is for the next call.
        """
        if self.closed:
            raise TimerClosed("the timer is closed")
        if self._hand_over.has_reaper:
            raise RuntimeError("this timer has a reaper; make it with reaper=False to advance it yourself")
        timeout_ms = whole_number(timeout_ms, "timeout_ms")
        self._be_started()
        found = self._advance_clock(min(timeout_ms, 9_000_000_000_000) * 1_000_000)
        self._hand_over.hand_out(self, in_caller=True)
        return found

    def drain(self, timeout: float | None = None) -> list[TimerTask | TimerBatch]:
        """Refuses timers from now on, waits until what is pending has run, each at its own time
        (of call_every once more, of a container all that it holds), and closes. After `timeout`
        seconds it returns the rest, as close() does. RuntimeError: in a callback of the timer,
        which it would wait for.
        """
        give_up = end_of(check_timeout(timeout))
        has_more = len(self) > 0  # which raises if __init__ was not called
        if self._hand_over.is_here(self):
            raise RuntimeError("drain() in a callback would wait for itself")
        if has_more and not self.closed:
            self._be_started()  # this may be the child of a fork, which keeps what was pending
        self._close(True)
        while self._has_more() and time_left(give_up) != 0 and not self._is_stopping():
            with contextlib.suppress(TimerClosed):  # a close() has just begun
                self._be_started()  # a signal handler may have forked, and this be the child
            self._hand_over.wait_for_due(self, give_up)
        is_done = not self._has_more()
        return self.close(run_pending=is_done, timeout=time_left(give_up) if is_done else 0)

    def load(self, data: bytes, *, overdue: Literal["run", "return"] = "run", now: float | None = None) -> Loaded:
        """Adds the tasks of a dump(), for the times of day that they had; all or none.
        overdue: what was due meanwhile runs at once, or comes back in the Loaded. DumpError: these
        are other bytes. Like all pickles they can do anything: load only what you have written.
        """
        return load_timer(self, data, overdue, now)

    @property
    def _runs_elsewhere(self) -> bool:
        return self._hand_over.elsewhere

    def _has_more(self) -> bool:
        while True:
            added = self.stats().added
            pending, ringing = self._left()
            if pending > 0 or ringing == 0:
                return pending > 0
            if self._hand_over.has_taken(self):
                return True
            if self.stats().added == added:
                return False
            # Else an alarm has been set again between the two looks, because its run ended there.

    def _end_threads(self, run_pending: bool, timeout: float | None) -> None:
        """The part of close() that waits."""
        give_up = end_of(timeout)
        if run_pending:
            self._make_all_ready()
            self._hand_over.drain(self, give_up)
        self._stop(False)
        self._hand_over.join(give_up)
        self._hand_over.take_back(self)

    def _begin_dump(self, now: float | None) -> Write:
        return begin_dump(self, now)

    def _report(self, source: Any, error: BaseException) -> None:
        # A callback that is still running while the interpreter ends may be refused an add: nobody wants to see that.
        if not (self._exiting and isinstance(error, TimerClosed)):
            report(self._on_error, source, error)

    def _miss(self, task: TimerTask) -> None:
        if self._on_missed is not None:
            self._on_missed(task)

    def _start(self) -> None:
        self._after_fork()
        self._hand_over.start(self)

    def _keeps_at_fork(self) -> bool:
        return self._keep_at_fork

    def _after_fork_in_child(self) -> None:
        """No thread of the timer came along. The next add starts them, or what was kept does."""
        self._hand_over.after_fork_in_child()
        self._after_fork()
        if len(self) and (not self.closed or self._is_finishing()):
            self._start()

    def _at_exit(self) -> None:
        self._exiting = True
        self._close()  # first, so that no add starts in vain the threads that the next line ends
        self._stop(False)
        self._hand_over.leave()
