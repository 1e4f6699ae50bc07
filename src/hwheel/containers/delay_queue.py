"""DelayQueue: a queue whose items become available at a deadline."""

import queue
from typing import TypeVar

from hwheel.containers import shared_timer
from hwheel.timers.base import BaseTimer, check_runs_here
from hwheel_core import BlockingDelayQueueCore, ShutDown

_T = TypeVar("_T")


def delay_queue_timer(timer: BaseTimer | None) -> BaseTimer:
    """Return the timer for a queue: the given one, or by default the one that all queues share."""
    check_runs_here(timer, "a waiter of a queue")
    return shared_timer("delaying", executor="inline") if timer is None else timer


class DelayQueue(BlockingDelayQueueCore[_T]):
    """A queue whose items become available at a deadline: retries, leases, polls, delayed work.

    For threads; ``hwheel.asyncio.DelayQueue`` is for coroutines.

    Items come out in the order of their deadlines, rounded up to the timer's tick, and within a
    tick in the order in which they were put or reset. No item comes out before its deadline.

    The garbage collector does not see the items: a reference cycle through an item is broken only
    when the item leaves the queue. In the child of a fork the queue is empty, unless the timer was
    created with ``fork="keep"``.

    Args:
        maxsize: The maximum number of items, due or not; ``put()`` waits for room. Zero or less:
            unlimited.
        timer: A SystemTimer or ManualTimer, without a process pool as its executor, which provides
            the clock and wakes waiting threads. The queue never closes it; call ``shutdown()``
            before you close it, because a closed timer wakes no thread. None: a timer that all
            queues of the process share.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The timer's executor is a process pool.
        TimerClosed: The timer is closed.

    Thread-safe. A KeyboardInterrupt in a waiting thread loses no item.

    >>> from hwheel import DelayQueue, ManualTimer
    >>> timer = ManualTimer()
    >>> retries = DelayQueue(timer=timer)
    >>> key = retries.put("send again", 5)
    >>> other = retries.put("ask again", 2)
    >>> retries.reset(key, 1), retries.peek().item
    (True, 'send again')
    >>> timer.advance(2)
    >>> retries.get(), retries.get(), len(retries)
    ('send again', 'ask again', 0)
    """

    __slots__ = ("__weakref__",)
    __module__ = "hwheel"

    def __init__(self, maxsize: int = 0, *, timer: BaseTimer | None = None) -> None:
        self._set_up(maxsize, delay_queue_timer(timer), (queue.Empty, queue.Full, ShutDown))
