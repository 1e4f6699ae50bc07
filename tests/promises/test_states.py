"""Every method of every class on an object in every state: uninitialized, closed, forked, in its own callback...

Each call ends in an exception or a result, never in a crash or a hang. The calls are generated from dir(), see
method_calls.py, so a new method is covered automatically. HWHEEL_SOAK_SECONDS repeats each class for that long, each
time with other arguments.
"""

import itertools
import os
import pathlib
import time
from typing import NamedTuple

import pytest

from programs import environment, output_of, run_python
from sampling import at_least, search_seconds, seed_for

PROGRAM = pathlib.Path(__file__).with_name("method_calls.py")
PATHS = {"PYTHONPATH": os.pathsep.join([environment()["PYTHONPATH"], str(PROGRAM.parent)])}


class Subject(NamedTuple):
    name: str
    states: int
    methods: int
    has_callback: bool

    def calls(self, calls):
        """Return how many calls the program makes for `calls` calls of each method."""
        in_states = self.states * self.methods
        in_child = in_states * calls if hasattr(os, "fork") else 0
        return in_states * (calls + 1) + in_child + self.has_callback * self.methods * calls


def subjects():
    for line in output_of(PROGRAM, env=PATHS).splitlines():
        name, states, methods, has_callback = line.split()
        yield Subject(name, int(states), int(methods), has_callback == "True")


SUBJECTS = at_least(40, subjects())


def test_the_generator_finds_all_states_and_methods():
    assert sum(subject.states for subject in SUBJECTS) >= 165
    assert sum(subject.states * subject.methods for subject in SUBJECTS) >= 6300
    assert sum(subject.has_callback for subject in SUBJECTS) >= 10


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_no_method_crashes_or_hangs_in_any_state(subject):
    give_up = time.monotonic() + search_seconds(0)
    calls = 1
    for number in itertools.count():
        seed = seed_for(number)
        done = run_python(PROGRAM, subject.name, calls, seed, patience_s=280, env=PATHS)
        end = "\n".join(done.out.splitlines()[-3:])
        assert done.status == 0, f"seed {seed}, {done.status}: {end}\n{done.err}"
        assert end.endswith(f"calls made: {subject.calls(calls)}")
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


def test_a_del_that_closes_an_uninitialized_timer_writes_no_error():
    assert output_of("-c", CLOSED_BY_DEL) == "fine\n"
