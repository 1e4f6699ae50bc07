"""Making every new event loop one on the wheel. Python deprecates policies from 3.14 on: there, prefer `run()`."""

import asyncio

from hwheel.asyncio.loop import EventLoop


class EventLoopPolicy(asyncio.DefaultEventLoopPolicy):
    """asyncio's default policy, with `hwheel.asyncio.EventLoop` as its loop.

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
    """Sets the policy: `asyncio.run()` and `asyncio.new_event_loop()` make loops on the wheel from now on.

    Before Python 3.16; from 3.14 on it is deprecated by asyncio, and `hwheel.asyncio.run()` is the way.
    """
    asyncio.set_event_loop_policy(EventLoopPolicy())
