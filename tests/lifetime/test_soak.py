"""The soak for a few seconds: it finds nothing in SystemTimer, and it finds faults in wrong timers."""

from pathlib import Path

import pytest

from programs import output_of, run_python
from sampling import SEED, scaled, search_seconds

pytest.importorskip("numpy")
pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc, signals, and fork")
SOAK = Path(__file__).parents[2] / "tools" / "soak"
QUIET = ["-P", "-W", "ignore::DeprecationWarning"]
IMPORTS = f"import sys; sys.path.insert(0, {str(SOAK)!r})\n"

WRONG_TIMERS = """
import itertools
from functools import partial
import numpy as np
from hwheel import SystemTimer
from load import Load, Plan

count = itertools.count(1)

def seldom(one, other):
    return one if next(count) % 500 == 0 else other

class Loses(SystemTimer):
    def call_later(self, delay, callback, *args):
        return super().call_later(delay, seldom(lambda *_: None, callback), *args)

class LosesInBatches(SystemTimer):
    def call_many(self, delays, callback):
        return super().call_many(delays, partial(lambda first, indices: callback(indices[1:]), *callback.args))

class Doubles(SystemTimer):
    def call_later(self, delay, callback, *args):
        return super().call_later(delay, seldom(lambda *args: (callback(*args), callback(*args)), callback), *args)

class Early(SystemTimer):
    def call_later(self, delay, callback, *args):
        return super().call_later(max(0, delay - 0.02), callback, *args)

class EarlyInBatches(SystemTimer):
    def call_many(self, delays, callback):
        return super().call_many((np.asarray(delays) - 20).clip(0), callback)

class Late(SystemTimer):
    def call_later(self, delay, callback, *args):
        return super().call_later(delay + 0.02, callback, *args)

expected = {Loses: ["lost"], LosesInBatches: ["lost"], Doubles: ["doubled"], Early: ["early"],
            EarlyInBatches: ["early"], Late: []}
for timer, faults in expected.items():
    load = Load(Plan(seconds=1.5, pending=4_000, operations_per_s=8_000, jump_every_s=0.2, fork_every_s=10), timer)
    load.run()
    load.faults.pop("lost or doubled in a signal handler", None)  # tasks of signals can be wrong too
    assert [*load.faults] == faults, (timer, load.faults)
"""


def soak(*, minutes=0.0, forks=0, patience_s=200):
    options = ["--seed", SEED or 1, "--minutes", minutes, "--pending", 20_000, "--rate", 20_000, "--forks", forks]
    return output_of(*QUIET, SOAK, *options, patience_s=patience_s)


def test_soak_with_load_finds_no_fault():
    out = soak(minutes=search_seconds(4) / 60)
    assert out.splitlines()[0] == f"seed {SEED or 1}"
    assert "nothing found" in out, out


def test_soak_with_forks_finds_no_fault():
    forks = scaled(36)
    out = soak(forks=forks, patience_s=100 + 3 * forks)
    assert f"{forks:,} forks" in out and "nothing found" in out, out


def test_soak_with_load_detects_wrong_timers():
    assert output_of(*QUIET, "-c", IMPORTS + WRONG_TIMERS) == ""


def test_exit_status_of_a_run_with_faults():
    program = f"""
import runpy, sys
import hwheel

class Loses(hwheel.SystemTimer):
    def call_later(self, delay, callback, *args):
        return super().call_later(delay, lambda *_: None, *args)

hwheel.SystemTimer = Loses
sys.argv = ["soak", "--seed", "1", "--minutes", "0.02", "--pending", "1000", "--rate", "5000"]
runpy.run_path({str(SOAK)!r}, run_name="__main__")
"""
    ended = run_python(*QUIET, "-c", program)
    assert ended.status == 1 and "FOUND" in ended.out and "'lost'" in ended.out, ended


def test_memory_growth_is_found():
    program = """
from accounting import growth

def faults(mb, descriptors):
    return {*growth([(second, 5, mb(second), descriptors(second)) for second in range(100)])}

assert faults(lambda s: 100 + s % 7, lambda s: 10 + s % 2) == set()
assert faults(lambda s: 100 + s, lambda s: 10) == {"MB of memory grown"}
assert faults(lambda s: 100, lambda s: 10 + s // 5) == {"descriptors grown"}
"""
    assert output_of("-P", "-c", IMPORTS + program) == ""


def test_a_child_that_hangs_or_has_another_status_is_found():
    program = """
import os, signal
import children
from load import Load, Plan

children.PATIENCE_S = 1
children.EXITS = {"hangs": (lambda load: signal.pause(), 0), "wrong": (lambda load: os._exit(4), 0)}
load = Load(Plan(seconds=0, pending=1_000, operations_per_s=5_000, forks=4, fork_every_s=0.001))
load.run()
assert load.faults == {"child, hangs: hangs": 3, "child, wrong: status 4": 1}, load.faults
"""
    ended = run_python(*QUIET, "-c", IMPORTS + program)
    assert (ended.status, ended.out) == (0, ""), ended
    assert "most recent call first" in ended.err, "no stacks of the child that hangs"
