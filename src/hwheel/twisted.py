"""Twisted's reactor with its delayed calls on the wheel: `callLater`, `cancel`, `reset` and `delay` in O(1).

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

LONGEST_S = 2.0**31  # what a loop is asked for; it is asked again then


class WheelDelayedCall(DelayedCall):
    """What `WheelReactor.callLater` returns: Twisted's `IDelayedCall`, moved in place."""

    _reactor: "WheelReactor"
    _handle: TimerHandle
    _is_far = False  # its handle rings before its time

    def reset(self, secondsFromNow: float) -> None:
        """Calls it so many seconds from now instead.

        Raises:
            AlreadyCancelled, AlreadyCalled: as Twisted's.
            TypeError, ValueError: secondsFromNow is no number of seconds; it stays where it was.

        Runtime complexity: O(1), earlier or later.
        """
        self._check_active()
        self._move(self.seconds() + secondsFromNow, secondsFromNow)

    def delay(self, secondsLater: float) -> None:
        """Calls it so many seconds later than it would have been called; a negative number: sooner.

        Raises:
            AlreadyCancelled, AlreadyCalled: as Twisted's.
            TypeError, ValueError: secondsLater is no number of seconds; it stays where it was.

        Runtime complexity: O(1).
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
        reached = min(delay, LONGEST_S)
        # What was due when it was added is the base loop's handle, which cannot be moved.
        reschedule = getattr(self._handle, "reschedule", None)
        if reschedule is None or not reschedule(reached):
            handle = self._reactor._asyncioEventloop.call_later(reached, self._ring)
            self._handle.cancel()
            self._handle = handle
        self.time = time
        self._is_far = delay > LONGEST_S

    def _ring(self) -> None:
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
    """Twisted's reactor on asyncio, with its delayed calls on the wheel of a loop of `hwheel.asyncio`.

    Arguments:
        eventloop: a loop of a class that `hwheel.asyncio.wheel_loop` makes; None: a new `hwheel.asyncio.EventLoop`,
            which becomes the loop of this thread.

    Thread-safety: as Twisted's: `callFromThread` for whatever is not the reactor's thread.
    """

    def __init__(self, eventloop: AbstractEventLoop | None = None) -> None:
        if eventloop is None:
            eventloop = new_event_loop()
            set_event_loop(eventloop)
        self._wheel_calls: dict[WheelDelayedCall, None] = {}
        self._wheel_log = Logger()
        super().__init__(eventloop)

    def callLater(self, delay: float, callable: Callable[..., Any], *args: object, **kw: object) -> WheelDelayedCall:
        """Calls `callable(*args, **kw)` in `delay` seconds, which are not negative.

        Runtime complexity: O(1).
        """
        assert delay >= 0, f"{delay} is not greater than or equal to 0 seconds"
        seconds = self.seconds
        made = WheelDelayedCall(seconds() + delay, callable, args, kw, self._cancelCallLater, _never, seconds=seconds)
        made._reactor = self
        if delay > LONGEST_S:
            made._is_far = True
            delay = LONGEST_S
        made._handle = self._asyncioEventloop.call_later(delay, made._ring)
        self._wheel_calls[made] = None
        return made

    def getDelayedCalls(self) -> list[Any]:
        """The calls that are pending, in the order in which they were made."""
        return [*self._wheel_calls]

    def _cancelCallLater(self, delayedCall: DelayedCall) -> None:
        assert isinstance(delayedCall, WheelDelayedCall)
        delayedCall._handle.cancel()
        del self._wheel_calls[delayedCall]

    def timeout(self) -> float | None:
        """None: the loop itself knows when to wake up."""
        return None

    def stop(self) -> None:
        """Stops the reactor, after whatever is to be done before."""
        PosixReactorBase.stop(self)
        self._asyncioEventloop.call_soon(self.runUntilCurrent)  # where the reactor sees that it was stopped


def _never(call: DelayedCall) -> None:
    """Twisted's DelayedCall tells its reactor by it that it was moved; ours moves its handle."""


def install(eventloop: AbstractEventLoop | None = None) -> WheelReactor:
    """Makes a WheelReactor the reactor of this process: before anything imports `twisted.internet.reactor`.

    Arguments:
        eventloop: as for WheelReactor.
    Raises:
        twisted.internet.error.ReactorAlreadyInstalledError: there is one already.
    """
    reactor = WheelReactor(eventloop)
    installReactor(reactor)  # type: ignore[no-untyped-call]
    return reactor
