"""DelayQueue: a queue whose items come out when they are due."""

import queue
from typing import TypeVar

from hwheel.containers.shared_timer import shared_timer
from hwheel.timers.base import BaseTimer, check_runs_here
from hwheel_core import BlockingDelayQueueCore, ShutDown

_T = TypeVar("_T")


def delay_queue_timer(timer: BaseTimer | None) -> BaseTimer:
    """The timer for a queue that was given this one."""
    check_runs_here(timer, "who waits in a queue")
    return shared_timer("delaying", executor="inline") if timer is None else timer


class DelayQueue(BlockingDelayQueueCore[_T]):
    """A queue whose items come out when they are due: retries, leases, polls, what is to be done
    later by a worker. For threads; `hwheel.asyncio.DelayQueue` is for coroutines.

    Items come out in the order of their deadlines, to the tick of the timer, and within a tick as
    they were put in or reset; none before its time. What is due waits for who comes.

    maxsize: how many items there may be, due or not; put() waits for room. 0 or less: any number.
    timer: a SystemTimer or a ManualTimer, for the clock and to wake who waits; it is left open.
        None: one that all queues of the process share. It has one task while somebody waits in
        get(), and none otherwise. Who waits when it is closed is not woken by it any more: shut
        the queue down first. Its executor cannot be one of processes.

    put() returns the item's key, for reset() and remove(); `key.item`, `key.deadline`,
    `key.pending`. queue.Full, queue.Empty as of queue.Queue; hwheel.types.ShutDown, which is
    queue.ShutDown from Python 3.13 on. TimerClosed: the timer is closed.

    Every method may be called from any thread. A Ctrl-C that comes while a thread waits leaves
    nothing behind. In a forked child the queue is empty, because its items are the parent's to work
    on, unless the timer keeps what was pending (fork="keep").

    The garbage collector does not see the items: a cycle of references that leads through one is
    broken when it leaves the queue, and not before.

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
