"""Chains of timers that hold one another are released without overflowing the C stack."""

import pytest

from programs import output_of

CHAINS = {
    "the only argument": "lambda last: TimerTask(5, print, last)",
    "one of two arguments": "lambda last: TimerTask(5, print, last, 1)",
    "a keyword": "lambda last: TimerTask(5, print, end=last)",
    "the callback": "lambda last: TimerTask(5, last.cancel if last else print)",
    "of a subclass": "lambda last: Sub(5, print, last)",
    "an attribute": "lambda last: with_last(Sub(5), last)",
    "of an operation": "lambda last: with_last(Operation(5), last)",
    "pending": "lambda last: timer.call_later(5, print, last)",
    "added": "lambda last: timer.add(TimerTask(5, print, last))",
    "of call_every": "lambda last: timer.call_every(5, print, last)",
    "of batches": "lambda last: timer.call_many(one, last.cancel if last else print)",
    "of a loop": "lambda last: loop.call_later(5, print, last)",
    "of timers": "lambda last: in_timer(ManualTimer(wheel_size=2), last)",
    "of wheels": "lambda last: in_wheel(TimingWheel(1, 2), last)",
}

SCRIPT = """
import gc, sys, threading
from array import array
import hwheel.asyncio
from hwheel import ManualTimer, TimerTask, TimingWheel
from hwheel.purgatory import DelayedOperation

class Sub(TimerTask):
    pass

class Operation(DelayedOperation):
    pass

def with_last(task, last):
    task.last = last
    return task

def in_timer(inner, last):
    inner.call_later(5, print, last)
    return inner

def in_wheel(inner, last):
    inner.add(TimerTask(5, print, last), 5)
    return inner

one = array("q", [5])

def build_and_release(make, end):
    last = None
    for _ in range(30_000):
        last = make(last)
    held = [last]
    del last
    if end == "cancelled" and hasattr(held[0], "cancel"):
        held[0].cancel()
    elif end == "closed":
        timer.close()
        loop.close()
        if hasattr(held[0], "close"):
            held[0].close()
    elif end == "garbage":
        held.append(held)
    del held
    gc.collect()

# CPython 3.13 itself recurses about 10,000 tuples deep before it defers a release.
threading.stack_size((16384 if sys.version_info[:2] == (3, 13) else 512) * 1024)
for end in ("dropped", "cancelled", "closed", "garbage"):
    print(end)
    timer = ManualTimer()
    loop = hwheel.asyncio.new_event_loop()
    thread = threading.Thread(target=build_and_release, args=({make}, end))
    thread.start()
    thread.join()
    timer.close()
    loop.close()
"""


@pytest.mark.parametrize("chain", CHAINS)
def test_long_chain_is_released(chain):
    # In a thread with a small stack, where 30,000 links overflow as millions do on the main thread.
    script = SCRIPT.replace("{make}", CHAINS[chain])
    assert output_of("-c", script).split() == ["dropped", "cancelled", "closed", "garbage"]
