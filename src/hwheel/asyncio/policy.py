"""An event loop policy for the wheel. Python deprecates policies from 3.14 on: prefer ``hwheel.asyncio.run()``."""

import asyncio

from hwheel.asyncio.loop import EventLoop


class EventLoopPolicy(asyncio.DefaultEventLoopPolicy):
    """asyncio's default policy with ``hwheel.asyncio.EventLoop`` as its loop.

    >>> import asyncio
    >>> import hwheel.asyncio
    >>> loop = hwheel.asyncio.EventLoopPolicy().new_event_loop()
    >>> isinstance(loop, hwheel.asyncio.EventLoop)
    True
    >>> loop.close()
    """

    __module__ = "hwheel.asyncio"

    _loop_factory = EventLoop


def install() -> None:
    """Set the policy, so that ``asyncio.run()`` and ``asyncio.new_event_loop()`` create loops on the wheel.

    asyncio deprecates policies from Python 3.14 on and removes them in 3.16; use ``hwheel.asyncio.run()`` there.

    Example:
        >>> import asyncio
        >>> import hwheel.asyncio
        >>> hwheel.asyncio.install()
        >>> loop = asyncio.new_event_loop()
        >>> isinstance(loop, hwheel.asyncio.EventLoop)
        True
        >>> loop.close()
        >>> asyncio.set_event_loop_policy(None)
    """
    asyncio.set_event_loop_policy(EventLoopPolicy())
