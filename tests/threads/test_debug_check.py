"""debug_check beside other threads: what it calls broken is broken."""

import threading
from array import array

import pytest

import hwheel_core
from hwheel import ManualTimer

pytestmark = pytest.mark.skipif(not hwheel_core.DEBUG, reason="for a debug build")


def test_a_batch_that_is_being_added_is_no_fault():
    timer = ManualTimer()
    delays_ms = array("q", range(1, 300_001))
    added = threading.Event()

    def add():
        for _ in range(3):
            timer.call_many(delays_ms, int).cancel()
        added.set()

    thread = threading.Thread(target=add)
    thread.start()
    checks = 0
    try:
        while not added.is_set():
            hwheel_core.debug_check(timer)
            checks += 1
    finally:
        thread.join()
        timer.close()
    assert checks > 3
