"""Twisted's reactor with its delayed calls on the wheel: ``callLater``, ``cancel``, ``reset``, and ``delay`` are O(1).

import hwheel.twisted

hwheel.twisted.install()  # before anything imports twisted.internet.reactor
"""

from asyncio import AbstractEventLoop, TimerHandle, set_event_loop
from collections.abc import Callable
from typing import Any

from hwheel.asyncio import new_event_loop
from hwheel.extras import needed_by

with needed_by("hwheel.twisted", "twisted"):
    from twisted.internet.asyncioreactor import AsyncioSelectorReactor
    from twisted.internet.base import DelayedCall
    from twisted.internet.error import AlreadyCalled, AlreadyCancelled
    from twisted.internet.main import installReactor
    from twisted.internet.posixbase import PosixReactorBase
    from twisted.logger import Logger

__all__ = ["WheelDelayedCall", "WheelReactor", "install"]

LONGEST_S = 2.0**31  # the longest delay that a loop receives; a call with a longer one is rescheduled after this time


class WheelDelayedCall(DelayedCall):
    """The handle that ``WheelReactor.callLater`` returns: an ``IDelayedCall`` that moves in place."""

    _reactor: "WheelReactor"
    _handle: TimerHandle
    _is_far = False  # True: the deadline is beyond LONGEST_S, so the handle runs before it

    def reset(self, secondsFromNow: float) -> None:
        """Move the call to ``secondsFromNow`` seconds from now.

        Args:
            secondsFromNow: Seconds from now.

        Raises:
            AlreadyCancelled, AlreadyCalled: As in Twisted.
            TypeError, ValueError: ``secondsFromNow`` is not a number; the call is unchanged.

        O(1), earlier or later.

        Example:
            >>> import hwheel.twisted
            >>> reactor = hwheel.twisted.install()
            >>> call = reactor.callLater(30, print, "idle")
            >>> call.reset(60)
            >>> round(call.getTime() - reactor.seconds())
            60
        """
        self._check_active()
        self._move(self.seconds() + secondsFromNow, secondsFromNow)

    def delay(self, secondsLater: float) -> None:
        """Move the call by ``secondsLater`` seconds.

        Args:
            secondsLater: Seconds to add to the time of the call. A negative number moves it to an earlier time.

        Raises:
            AlreadyCancelled, AlreadyCalled: As in Twisted.
            TypeError, ValueError: ``secondsLater`` is not a number; the call is unchanged.

        O(1).

        Example:
            >>> import hwheel.twisted
            >>> reactor = hwheel.twisted.install()
            >>> call = reactor.callLater(30, print, "idle")
            >>> call.delay(10)
            >>> round(call.getTime() - reactor.seconds())
            40
        """
        self._check_active()
        time = self.time + secondsLater
        self._move(time, time - self.seconds())

    def _check_active(self) -> None:
        if self.cancelled:
            raise AlreadyCancelled
        if self.called:
            raise AlreadyCalled

    def _move(self, time: float, delay: float) -> None:
        if time != time:
            raise ValueError("a number of seconds must not be NaN")
        handle_delay = min(delay, LONGEST_S)
        # A call that was due when it was added has a handle of the base loop, which cannot be moved.
        reschedule = getattr(self._handle, "reschedule", None)
        if reschedule is None or not reschedule(handle_delay):
            handle = self._reactor._asyncioEventloop.call_later(handle_delay, self._run)
            self._handle.cancel()
            self._handle = handle
        self.time = time
        self._is_far = delay > LONGEST_S

    def _run(self) -> None:
        reactor = self._reactor
        if self._is_far:
            self._move(self.time, self.time - self.seconds())
            return
        del reactor._wheel_calls[self]
        self.called = 1
        try:
            self.func(*self.args, **self.kw)
        except BaseException:
            created = f"\n C: from a DelayedCall created here:\n{''.join(self.creator)}" if self.creator else ""
            reactor._wheel_log.failure("while handling timed call{created}", created=created)


class WheelReactor(AsyncioSelectorReactor):
    """Twisted's reactor on asyncio, with its delayed calls on the wheel of a loop of ``hwheel.asyncio``.

    Args:
        eventloop: A loop of a class that ``hwheel.asyncio.wheel_loop`` creates. Default: a new
            ``hwheel.asyncio.EventLoop``, which becomes the loop of this thread.

    Not thread-safe, as in Twisted: use ``callFromThread`` in other threads.
    """

    def __init__(self, eventloop: AbstractEventLoop | None = None) -> None:
        if eventloop is None:
            eventloop = new_event_loop()
            set_event_loop(eventloop)
        self._wheel_calls: dict[WheelDelayedCall, None] = {}
        self._wheel_log = Logger()
        super().__init__(eventloop)

    def callLater(self, delay: float, callable: Callable[..., Any], *args: object, **kw: object) -> WheelDelayedCall:
        """Call ``callable(*args, **kw)`` after ``delay`` seconds.

        Args:
            delay: Seconds from now, not negative.
            callable: The function to call.

        Returns:
            The handle of the call.

        O(1).

        Example:
            >>> import hwheel.twisted
            >>> reactor = hwheel.twisted.install()
            >>> call = reactor.callLater(0.01, print, "hello")
            >>> stop = reactor.callLater(0.02, reactor.stop)
            >>> reactor.run()
            hello
        """
        assert delay >= 0, f"{delay} is not greater than or equal to 0 seconds"
        seconds = self.seconds
        due = seconds() + delay
        call = WheelDelayedCall(due, callable, args, kw, self._cancelCallLater, _ignore_move, seconds=seconds)
        call._reactor = self
        if delay > LONGEST_S:
            call._is_far = True
            delay = LONGEST_S
        call._handle = self._asyncioEventloop.call_later(delay, call._run)
        self._wheel_calls[call] = None
        return call

    def getDelayedCalls(self) -> list[Any]:
        """Return the pending calls in the order in which they were added.

        Example:
            >>> import hwheel.twisted
            >>> reactor = hwheel.twisted.install()
            >>> calls = [reactor.callLater(30, print), reactor.callLater(20, print)]
            >>> reactor.getDelayedCalls() == calls
            True
        """
        return [*self._wheel_calls]

    def _cancelCallLater(self, delayedCall: DelayedCall) -> None:
        assert isinstance(delayedCall, WheelDelayedCall)
        delayedCall._handle.cancel()
        del self._wheel_calls[delayedCall]

    def timeout(self) -> float | None:
        """Return None, because the loop knows when to wake up.

        Example:
            >>> import hwheel.twisted
            >>> reactor = hwheel.twisted.install()
            >>> call = reactor.callLater(30, print)
            >>> reactor.timeout() is None
            True
        """
        return None

    def stop(self) -> None:
        """Stop the reactor after the shutdown triggers have run.

        Example:
            >>> import hwheel.twisted
            >>> reactor = hwheel.twisted.install()
            >>> call = reactor.callLater(0.01, reactor.stop)
            >>> reactor.run()
            >>> reactor.running
            False
        """
        PosixReactorBase.stop(self)
        self._asyncioEventloop.call_soon(self.runUntilCurrent)  # this method notices that the reactor was stopped


def _ignore_move(call: DelayedCall) -> None:
    """Do nothing. Twisted's DelayedCall reports a move to the reactor, but WheelDelayedCall moves its own handle."""


def install(eventloop: AbstractEventLoop | None = None) -> WheelReactor:
    """Install a WheelReactor as the reactor of this process, before anything imports ``twisted.internet.reactor``.

    Args:
        eventloop: As in ``WheelReactor``.

    Returns:
        The reactor.

    Raises:
        twisted.internet.error.ReactorAlreadyInstalledError: The process already has a reactor.

    Example:
        >>> import hwheel.twisted
        >>> reactor = hwheel.twisted.install()
        >>> from twisted.internet import reactor as installed
        >>> installed is reactor
        True
    """
    reactor = WheelReactor(eventloop)
    installReactor(reactor)  # type: ignore[no-untyped-call]
    return reactor
