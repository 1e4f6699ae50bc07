"""The soak of soak/, for seconds and with little pending: it finds nothing, and it finds what wrong timers do."""

from pathlib import Path

import pytest

from programs import output_of, run_python
from sampling import SEED, search_seconds

np = pytest.importorskip("numpy")
pytest.importorskip("rich")
SOAK = Path(__file__).parents[2] / "tools" / "soak"
pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="its signals and forks are POSIX's")
QUIET = ["-P", "-W", "ignore::DeprecationWarning"]

# Wrong timers, each in one way, and what is found then.
WRONG = """
import itertools, sys
from collections import Counter
sys.path.insert(0, {soak!r})
import numpy as np
from adders import Run
from hwheel import SystemTimer
from load import Load
from plan import Plan

count = itertools.count(1)

def seldom(one, other):
    return one if next(count) % 500 == 0 else other

class Loses(SystemTimer):
    def call_later(self, delay, callback, *args):
        return super().call_later(delay, seldom(lambda *_: None, callback), *args)

class LosesInBatches(SystemTimer):
    def call_many(self, delays, callback):
        if isinstance(callback, Run):
            callback.__class__ = LosesFirst
        return super().call_many(delays, callback)

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
    "Which is not wrong."
    def call_later(self, delay, callback, *args):
        return super().call_later(delay + 0.02, callback, *args)

class LosesFirst(Run):
    def __call__(self, indices):
        super().__call__(indices[1:])

for timer, what in [
    (Loses, ["lost"]),
    (LosesInBatches, ["lost"]),
    (Doubles, ["doubled"]),
    (Early, ["early"]),
    (EarlyInBatches, ["early"]),
    (Late, []),
]:
    load = Load(Plan(seconds=1.5, pending=4_000, operations_per_s=8_000, fork_every_s=1, jump_every_s=0.2), timer)
    load.run()
    for other in ("lost or doubled in a signal's handler", "a child's status 512"):
        del load.faults[other]  # what is seldom may be that, and the child says by its status that it is early
    assert [*load.faults] == what, (timer, load.faults)
"""


def test_nothing_is_found():
    lasts = ["--minutes", search_seconds(4) / 60, "--pending", 20_000, "--rate", 20_000]
    out = output_of(*QUIET, SOAK, "--seed", SEED or 1, "load", *lasts)
    assert out.splitlines()[0] == f"seed {SEED or 1}"
    assert "lost 0, doubled 0, early 0" in out and "nothing found" in out, out


def test_a_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "new" / "soak.png"
    output_of(*QUIET, SOAK, "load", "--minutes", 0.01, "--pending", 1000, "--rate", 5000, "--picture", picture)
    assert picture.stat().st_size > 1000


def test_what_wrong_timers_do_is_found():
    assert output_of(*QUIET, "-c", WRONG.format(soak=str(SOAK))) == ""


def test_the_command_says_by_its_status_that_something_was_found():
    program = f"""
import sys
sys.argv = ["soak", "--seed", "1", "load", "--minutes", "0.02", "--pending", "1000", "--rate", "5000"]
import hwheel

class Loses(hwheel.SystemTimer):
    def call_later(self, delay, callback, *args):
        return super().call_later(delay, lambda *_: None, *args)

hwheel.SystemTimer = Loses
import runpy
runpy.run_path({str(SOAK)!r}, run_name="__main__")
"""
    ended = run_python(*QUIET, "-c", program)
    assert ended.status == 1 and "FOUND" in ended.out and "'lost'" in ended.out, ended


def test_memory_that_grows_is_found():
    program = f"""
import sys
sys.path.insert(0, {str(SOAK)!r})
from process import Samples

def faults(rss_mb, descriptors):
    samples = Samples(10)
    samples.seconds = [float(second) for second in range(100)]
    samples.rss_mb = [rss_mb(second) for second in range(100)]
    samples.descriptors = [descriptors(second) for second in range(100)]
    return {{*samples.faults()}}

assert faults(lambda s: 100 + s % 7, lambda s: 10 + s % 2) == set()
assert faults(lambda s: min(s, 10) * 100, lambda s: min(s, 10) * 5) == set()
assert faults(lambda s: 100 + s, lambda s: 10) == {{"MB of memory grown"}}
assert faults(lambda s: 100, lambda s: 10 + s // 5) == {{"descriptors grown"}}
"""
    assert output_of("-P", "-c", program) == ""
