"""OneShot: a thread that is interrupted while it waits or sets it leaves it usable for all others."""

import signal
import threading
import time

from hwheel.timers.one_shot import OneShot


def test_all_who_wait_are_let_through_and_later_ones_do_not_wait():
    happened = OneShot()
    passed = []
    threads = [threading.Thread(target=lambda: passed.append(happened.wait(60))) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert happened.wait(0.01) is False
    happened.set()
    happened.set()
    for thread in threads:
        thread.join(60)
    assert passed == [True] * 5
    assert happened.wait() is True and happened.wait(-1) is True and happened.wait(float("inf")) is True


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
