"""debug_check beside other threads: what it calls broken is broken."""

import sys
import threading
import time
from array import array

import pytest

import hwheel_core
from hwheel import ManualTimer

pytestmark = pytest.mark.skipif(not hwheel_core.DEBUG, reason="for a debug build")


def test_a_batch_that_is_being_added_is_no_fault():
    timer = ManualTimer(wheel_size=16)
    delays_ms = array("q", [5]) * 2_000_000
    give_up = time.monotonic() + 2

    def add():
        while time.monotonic() < give_up:
            timer.call_many(delays_ms, int).cancel()

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=add)
    thread.start()
    try:
        while time.monotonic() < give_up:
            hwheel_core.debug_check(timer)
    finally:
        sys.setswitchinterval(usual)
        thread.join()
        timer.close()
