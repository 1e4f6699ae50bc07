"""Every method on an object in every state: never set up, half set up, twice, closed, forked, in its own callback.

An exception or a result, never a crash or a hang. The calls are generated from dir(), see states.py, so a new method is
covered by itself. With HWHEEL_SOAK_SECONDS each class is called anew, differently, for that long.
"""

import itertools
import pathlib
import time

import pytest

from programs import output_of, run_python
from sampling import search_seconds, seed_for

STATES = pathlib.Path(__file__).with_name("states.py")


def run_states(*arguments):
    return run_python(STATES, *arguments, patience_s=280)


NAMES = run_states().out.split()


def test_the_classes_are_found():
    assert {
        "TimingWheel",
        "TimerTask",
        "PeriodicTask",
        "TermsTask",
        "TimerBatch",
        "TimerGroup",
        "GroupTask",
        "LoopTimers",
        "TimerHandle",
        "OperationCore",
        "SystemTimer",
        "ManualTimer",
        "RecordingTimer",
        "PurgatoryCore",
        "WatchList",
        "Int64Buffer",
        "ExpiringDict",
        "DelayQueue",
        "DelayKey",
    } <= {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_every_method_in_every_state_is_survived(name):
    give_up = time.monotonic() + search_seconds(0)
    calls = 1
    for number in itertools.count():
        seed = seed_for(number)
        done = run_states(name, calls, seed)
        ended = "\n".join(done.out.splitlines()[-3:])
        assert done.status == 0, f"seed {seed}, {done.status}: {ended}\n{done.err}"
        assert ended.endswith("all done")
        if time.monotonic() > give_up:
            return
        calls = 5


CLOSED_BY_DEL = """
import gc, hwheel, hwheel.recorder

def closes_by_del(base):
    class Timer(base):
        def __init__(self, *arguments, **options):
            if arguments != ("forgets",):
                super().__init__(*arguments, **options)
        def __del__(self):
            assert self.close() == []
    return Timer

for base in (hwheel.SystemTimer, hwheel.ManualTimer, hwheel.recorder.RecordingTimer):
    cls = closes_by_del(base)
    cls("forgets")
    cls.__new__(cls)
    for options in ({"tick_ms": 0}, {"wheel_size": 1}, {"tick_ms": "1"}, {"start_ms": -1}, {"name": 5}):
        try:
            cls(**options)
        except (TypeError, ValueError):
            pass
        else:
            raise AssertionError(options)
    gc.collect()
print("fine")
"""


def test_a_del_that_closes_what_was_never_set_up_is_quiet():
    assert output_of("-c", CLOSED_BY_DEL) == "fine\n"
