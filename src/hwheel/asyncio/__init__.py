"""asyncio's event loop with its timers on a wheel: ``call_later``, ``call_at``, and ``cancel`` in O(1).

>>> import asyncio
>>> import hwheel.asyncio
>>> async def main():
...     async with asyncio.timeout(10):
...         await asyncio.sleep(0.01)
...     return "done"
>>> hwheel.asyncio.run(main())
'done'
"""

from typing import TYPE_CHECKING, Any

from hwheel.asyncio.delay_queue import DelayQueue, QueueShutDown
from hwheel.asyncio.loop import EventLoop, new_event_loop, run
from hwheel.asyncio.loop_class import wheel_loop
from hwheel.asyncio.periodic import PeriodicCall, call_every
from hwheel.asyncio.timeouts import Timeouts, wait_for
from hwheel_core import LoopHandle as TimerHandle
from hwheel_core import Timeout, idle_timeout, timeout, timeout_at

if TYPE_CHECKING:
    from hwheel.asyncio.policy import EventLoopPolicy, install

__all__ = [
    "DelayQueue",
    "EventLoop",
    "EventLoopPolicy",
    "PeriodicCall",
    "QueueShutDown",
    "Timeout",
    "TimerHandle",
    "Timeouts",
    "call_every",
    "idle_timeout",
    "install",
    "new_event_loop",
    "run",
    "timeout",
    "timeout_at",
    "wait_for",
    "wheel_loop",
]


def __getattr__(name: str) -> Any:
    # Imported on access, because asyncio policies warn from Python 3.14 on.
    if name in ("EventLoopPolicy", "install"):
        from hwheel.asyncio import policy

        return getattr(policy, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
