"""OneShot: a thread that is interrupted while it waits or sets it leaves it usable for all others."""

import math
import signal
import threading
import time

from hwheel.timers import one_shot
from hwheel.timers.one_shot import OneShot
from interrupts import interrupt_each_line


def is_waited_for(happened):
    return any(awaited is happened for _, awaited in [*one_shot._waits.values()])


def test_all_who_wait_are_let_through_and_later_ones_do_not_wait():
    happened = OneShot()
    passed = []
    timeouts = [60, 60, None, 1e300, math.inf]  # longer than any lock waits, too
    threads = [threading.Thread(target=lambda s=s: passed.append(happened.wait(s))) for s in timeouts]
    for thread in threads:
        thread.start()
    assert happened.wait(0.01) is False
    happened.set()
    happened.set()
    for thread in threads:
        thread.join(60)
    assert passed == [True] * 5
    assert not is_waited_for(happened)  # nobody holds on to it
    assert happened.wait() is True and happened.wait(-1) is True and happened.wait(float("inf")) is True


def test_who_waits_is_let_through_where_another_is_interrupted_at_any_line(eventually):
    def scenario():
        happened = OneShot()
        other = threading.Thread(target=happened.wait, daemon=True)
        other.start()
        eventually(lambda: is_waited_for(happened))
        yield lambda: happened.wait(begin=happened.set)
        if not happened._is_set:
            happened.set()
        other.join(20)
        assert not other.is_alive()

    assert interrupt_each_line(scenario, ("hwheel/timers/one_shot.py",)) > 5


def test_interruptions_of_one_who_waits_keep_no_other_waiting():
    class Interrupted(Exception):
        pass

    def interrupt(*_):
        raise Interrupted

    usual = signal.signal(signal.SIGALRM, interrupt)
    try:
        give_up = time.monotonic() + 3
        while time.monotonic() < give_up:
            happened = OneShot()
            setter = threading.Timer(0.0005, happened.set)
            setter.start()
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0004)
                happened.wait()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                pass
            setter.join()
            other = threading.Thread(target=happened.wait, args=(30,))
            other.start()
            other.join(20)
            assert not other.is_alive()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)
