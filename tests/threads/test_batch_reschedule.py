"""A batch's timers that are moved while the reaper sleeps."""

import time
from array import array


def test_what_is_moved_to_an_earlier_time_wakes_the_reaper(make_timer, executor, eventually):
    timer, ran = make_timer(executor=executor), []
    batch = timer.call_many(array("q", [3_600_000] * 3), ran.extend)
    time.sleep(0.2)  # it goes to sleep
    assert batch.reschedule(array("q", [1]), array("q", [1])) == 1
    eventually(lambda: ran == [1])
    assert batch.pending == 2
