"""asyncio's own event loop on the wheel, and run()."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from hwheel.asyncio.loop_class import wheel_loop

_T = TypeVar("_T")

if TYPE_CHECKING:

    class EventLoop(asyncio.SelectorEventLoop):
        """asyncio.SelectorEventLoop with its timers on the wheel."""

else:
    EventLoop = wheel_loop(asyncio.SelectorEventLoop)


def new_event_loop() -> EventLoop:
    """Create an EventLoop.

    >>> import hwheel.asyncio
    >>> loop = hwheel.asyncio.new_event_loop()
    >>> loop.call_later(30, print, "half a minute").cancel()
    >>> loop.close()
    """
    return EventLoop()


def run(
    main: Coroutine[Any, Any, _T],
    *,
    debug: bool | None = None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
) -> _T:
    """Run a coroutine on an EventLoop, as ``asyncio.run()``.

    Args:
        main: A coroutine.
        debug: Enable asyncio's debug mode. None: as set by the environment.
        loop_factory: A callable that creates the loop, such as ``wheel_loop(uvloop.Loop)``.

    Returns:
        The coroutine's result.

    Raises:
        RuntimeError: An event loop is running in this thread.

    >>> import asyncio
    >>> import hwheel.asyncio
    >>> hwheel.asyncio.run(asyncio.sleep(0.01, "slept"))
    'slept'
    """
    with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
        return runner.run(main)
