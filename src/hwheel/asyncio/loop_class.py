"""wheel_loop(): any event loop class with its timers on the wheel."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from hwheel.asyncio.timers import WheelTimers
from hwheel_core import RLock, loop_call_at, loop_call_later

if TYPE_CHECKING:
    Base = asyncio.AbstractEventLoop
else:
    Base = object

_Ts = TypeVarTuple("_Ts")
Loop = TypeVar("Loop", bound=asyncio.AbstractEventLoop)

_deriving = RLock()  # so that concurrent callers get the same class


class WheelTimersMixin(Base):
    """Mixin in front of a loop class that puts its timers on a wheel."""

    _wheel_timers: WheelTimers

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._wheel_timers = WheelTimers(self, super())
        super().__init__(*args, **kwargs)
        self._wheel_timers.debug = self.get_debug()
        # Bound compiled methods are found faster. A subclass that overrides one of them disables this.
        own_class = type(self)
        if own_class.call_at is WheelTimersMixin.call_at:
            vars(self)["call_at"] = self._wheel_timers.call_at
            if own_class.call_later is WheelTimersMixin.call_later:
                vars(self)["call_later"] = self._wheel_timers.call_later

    if TYPE_CHECKING:

        def call_later(
            self, delay: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
        ) -> asyncio.TimerHandle: ...

        def call_at(
            self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
        ) -> asyncio.TimerHandle: ...

    else:
        call_later = loop_call_later
        call_at = loop_call_at

    def set_debug(self, enabled: bool) -> None:
        """Enable or disable asyncio's debug mode."""
        super().set_debug(enabled)  # pyright: ignore[reportAbstractUsage]    (the base comes later)
        self._wheel_timers.debug = bool(enabled)

    def run_forever(self) -> None:
        """Run until stop() is called."""
        self._wheel_timers.run(super().run_forever)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Call the exception handler; if the loop failed to call a wake-up, request another one."""
        self._wheel_timers._handle_failure(context.get("handle"))
        super().call_exception_handler(context)  # pyright: ignore[reportAbstractUsage]

    def close(self) -> None:
        """Close the loop and drop its pending timers."""
        super().close()  # pyright: ignore[reportAbstractUsage]
        self._wheel_timers.close()


def wheel_loop(base: type[Loop]) -> type[Loop]:
    """Derive an event loop class with its timers on the wheel.

    Args:
        base: An event loop class, such as ``uvloop.Loop``. The timers call only these public methods of it:
            ``call_at``, ``call_later``, ``call_soon``, ``time``, ``is_running``, ``get_debug``, and
            ``call_exception_handler``.

    Returns:
        A subclass of ``base``: the same one for each call with this base.

    Raises:
        TypeError: ``base`` is not a class, or has no ``call_at``.

    Thread-safe.

    >>> import asyncio
    >>> from hwheel.asyncio import EventLoop, wheel_loop
    >>> wheel_loop(asyncio.SelectorEventLoop) is EventLoop
    True
    """
    if not (isinstance(base, type) and callable(getattr(base, "call_at", None))):
        raise TypeError(f"base must be an event loop class with a call_at method, got {base!r}")
    if issubclass(base, WheelTimersMixin):
        return base
    with _deriving:
        return _derived_from(base)


def _derived_from(base: type[Loop]) -> type[Loop]:
    bases = (WheelTimersMixin, base)
    for subclass in base.__subclasses__():  # a cache that keeps no class alive
        if subclass.__bases__ == bases and subclass.__module__ == "hwheel.asyncio":
            return subclass
    name = f"Wheel{base.__name__.lstrip('_')}"
    doc = f"{base.__module__}.{base.__qualname__}, with its timers on the wheel."
    return type(name, bases, {"__module__": "hwheel.asyncio", "__doc__": doc})  # pyright: ignore[reportReturnType]
