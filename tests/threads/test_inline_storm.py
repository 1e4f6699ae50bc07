"""An inline timer whose callbacks add the next at once: other threads still have their turn."""

import contextlib
import time

from hwheel import TimerClosed


def test_the_main_thread_has_its_turn(make_timer):
    timer = make_timer(executor="inline")

    def add_the_next():
        with contextlib.suppress(TimerClosed):
            timer.call_later(0, add_the_next)

    add_the_next()
    add_the_next()
    began = time.monotonic()
    for _ in range(40):
        time.sleep(0.001)
    took = time.monotonic() - began
    timer.close()
    assert took < 10, f"40 ms took {took} s"
