"""The descriptors that the reaper is woken with are closed by close(), not some day later."""

import os

import pytest

from hwheel import SystemTimer
from systems import skip_unless_clock

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux's /proc")


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("clock", ["monotonic", "boottime"])
@pytest.mark.parametrize("executor", [None, "inline"])
def test_close_closes_them_even_if_timer_and_tasks_are_kept(executor, clock):
    skip_unless_clock(clock)
    before = open_descriptors()
    timers = [SystemTimer(executor=executor, clock=clock) for _ in range(20)]
    assert open_descriptors() == before, "an unused timer needs none"
    tasks = [timer.call_later(3600, print) for timer in timers]
    assert before < open_descriptors() <= before + 40
    returned = [timer.close() for timer in timers]
    assert returned == [[task] for task in tasks]
    assert open_descriptors() == before


def test_without_a_reaper_too():
    before = open_descriptors()
    timer = SystemTimer(reaper=False)
    timer.call_later(3600, print)
    timer.advance_clock(1)
    timer.close()
    assert open_descriptors() == before


def test_a_timer_closed_by_its_own_callback_closes_them_too(eventually):
    before = open_descriptors()
    timers = [SystemTimer(executor=executor) for executor in (None, "inline")]
    for timer in timers:
        timer.call_later(0, timer.close)
    eventually(lambda: all(timer.closed for timer in timers) and open_descriptors() == before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_none_of_the_parents(run_script):
    answer = run_script(
        """
before = len(os.listdir("/proc/self/fd"))
timers = [SystemTimer() for _ in range(20)]
for timer in timers:
    timer.call_later(3600, print)

def child():
    assert len(os.listdir("/proc/self/fd")) == before

in_child(child)
"""
    )
    assert answer == (0, "", "")
