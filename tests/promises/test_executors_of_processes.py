"""What could not be sent to another process refuses a timer that would send it there, and does not wait in vain."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import hwheel.asyncio
from hwheel import DelayQueue, ExpiringDict, SystemTimer
from hwheel.purgatory import DelayedFuturePurgatory, DelayedOperationPurgatory

MAKERS = {
    "ExpiringDict": lambda timer: ExpiringDict(10, timer=timer),
    "DelayQueue": lambda timer: DelayQueue(timer=timer),
    "asyncio.DelayQueue": lambda timer: hwheel.asyncio.DelayQueue(timer=timer),
    "DelayedOperationPurgatory": lambda timer: DelayedOperationPurgatory("on processes", timer),
    "DelayedFuturePurgatory": lambda timer: DelayedFuturePurgatory("on processes", timer),
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_a_timer_that_hands_out_to_processes_is_refused_by_what_cannot_go_there(make):
    with ProcessPoolExecutor(1) as executor, SystemTimer(executor=executor) as timer:
        with pytest.raises(ValueError, match="processes"):
            make(timer)
        assert len(timer) == 0


def test_a_timer_that_hands_out_to_threads_is_taken(make):
    with ThreadPoolExecutor(1) as executor, SystemTimer(executor=executor) as timer:
        make(timer)
