"""Faulty thread starts and clocks, buffers that change, and process pools.

No fault may lose a task or run it twice or early, and the timer must go on or can be closed. By default each test tries
a sample; HWHEEL_SOAK_SECONDS=1 tries everything.
"""

import pathlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import fault_injection
import faulty_clocks
import hwheel.asyncio
from hwheel import DelayQueue, ExpiringDict, SystemTimer
from hwheel.cachetools import TTLCache
from hwheel.purgatory import DelayedFuturePurgatory, DelayedOperationPurgatory
from programs import run_python
from sampling import at_least, sample, search_seconds

NO_FAULTS = (0, "", "")


@pytest.mark.parametrize("name", sample(at_least(20, fault_injection.STARTS), 5))
def test_only_the_add_that_could_not_start_a_thread_raises(find_faults, name):
    assert find_faults("fault_injection", "without_thread", name) == NO_FAULTS


@pytest.mark.parametrize("case", sample(at_least(42, faulty_clocks.CASES), 5))
def test_a_timer_keeps_its_promises_on_a_faulty_clock(find_faults, case):
    assert find_faults("faulty_clocks", "run", case) == NO_FAULTS


# --- buffers -----------------------------------------------------------------------------------------------------

BUFFERS = pathlib.Path(__file__).with_name("shared_buffers.py")
SECONDS = search_seconds(1)


@pytest.mark.parametrize("name", at_least(13, run_python(BUFFERS).out.splitlines()))
def test_a_buffer_that_changes_during_the_call_causes_no_crash(name):
    done = run_python(BUFFERS, name, SECONDS, patience_s=SECONDS + 100)
    assert done.status == 0 and "all done" in done.out, f"{done.status}: {done.out}\n{done.err}"


# --- process pools -----------------------------------------------------------------------------------------------

USERS_OF_A_TIMER = {
    "ExpiringDict": lambda timer: ExpiringDict(10, timer=timer),
    "TTLCache": lambda timer: TTLCache(10, 10, timer.time),
    "DelayQueue": lambda timer: DelayQueue(timer=timer),
    "asyncio.DelayQueue": lambda timer: hwheel.asyncio.DelayQueue(timer=timer),
    "DelayedOperationPurgatory": lambda timer: DelayedOperationPurgatory("on a pool", timer),
    "DelayedFuturePurgatory": lambda timer: DelayedFuturePurgatory("on a pool", timer),
}


@pytest.mark.parametrize("create", USERS_OF_A_TIMER.values(), ids=USERS_OF_A_TIMER)
def test_objects_that_cannot_be_pickled_refuse_a_timer_on_a_process_pool(create):
    with ProcessPoolExecutor(1) as executor, SystemTimer(executor=executor) as timer:
        with pytest.raises(ValueError, match="processes"):
            create(timer)
        assert len(timer) == 0
    with ThreadPoolExecutor(1) as executor, SystemTimer(executor=executor) as timer:
        create(timer)
