"""Fixtures for the whole suite. The suite runs against the installed package, never against the source tree."""

import gc
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import hwheel
import hwheel_core

sys.path.append(str(Path(__file__).parent / "helpers"))  # the suite's import mode leaves it out
import exploring
import waiting
from part_times import PartTimes
from programs import run_python, stop_ignoring_signals
from systems import skip_unless_there

SEED_SAID = "the searches of this run start from the seed {0}: HWHEEL_SEED={0} repeats them"
FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Before Hypothesis' own, which looks at the option."""
    stop_ignoring_signals()
    config.pluginmanager.register(PartTimes(Path(__file__).parent))
    given = config.getoption("hypothesis_seed", None)
    if given is not None:
        exploring.explore(int(given))
    elif exploring.SEED is not None:
        config.option.hypothesis_seed = str(exploring.SEED)


def pytest_sessionstart(session):
    if exploring.SEED is not None:
        session.config.get_terminal_writer().line(SEED_SAID.format(exploring.SEED))


def pytest_terminal_summary(terminalreporter):
    if exploring.SEED is not None:
        terminalreporter.section("seed")
        terminalreporter.line(SEED_SAID.format(exploring.SEED))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(autouse=True)
def nothing_left_behind(request):
    """After each test: no thread of a timer is alive, and in a debug build no timer, task or batch is."""
    live_before = hwheel_core.debug_live() if hwheel_core.DEBUG else None
    threads_before = set(threading.enumerate())
    yield
    give_up = time.monotonic() + waiting.PATIENCE_S  # a collection takes seconds on a slow build beside other work
    while time.monotonic() < give_up:
        left = [
            thread.name
            for thread in set(threading.enumerate()) - threads_before
            if thread.name.startswith(("reaper-", "executor-"))
        ]
        if not left:
            break
        time.sleep(0.01)
    assert not left, f"threads left behind: {left}"
    if request.node.stash.get(FAILED, False):
        return  # its traceback holds on to what it used
    if live_before is not None and not request.node.get_closest_marker("leaves_objects"):
        # Fewer is no fault: what a failed test before this one left in its traceback may be gone by now. A thread of
        # an executor may need a moment to let go of what it ran.
        while True:
            live = hwheel_core.debug_live()
            if all(now <= before for now, before in zip(live, live_before, strict=True)):
                break
            assert time.monotonic() < give_up, f"(timers, tasks, batches) left behind: {live_before} before, {live} now"
            gc.collect()  # may take as long as that by itself, after a long search
            time.sleep(0.01)


@pytest.fixture(scope="session")
def the_engine_runs():
    """What all hwheel.Timers of the process share is made once and stays: it is no test's to clean up."""
    timer = hwheel.Timer(0, int)
    timer.start()
    timer.join()


@pytest.fixture
def eventually():
    """eventually(condition): waits until condition() is true, and fails if it never is."""
    return waiting.eventually


@pytest.fixture
def short_path():
    """A directory for Unix sockets, whose paths have some 100 bytes at most: pytest's own are longer on macOS."""
    with tempfile.TemporaryDirectory(prefix="hwheel-", dir="/tmp") as directory:
        yield Path(directory)


@pytest.fixture
def make_timer():
    """SystemTimer, but closed at the end of the test."""
    made = []

    def make(*args, **kwargs):
        made.append(hwheel.SystemTimer(*args, **kwargs))
        return made[-1]

    yield make
    while made:  # emptied: pytest holds on to `make` while other fixtures look for what is left behind
        made.pop().close()


@pytest.fixture
def many_switches():
    """Threads take turns a hundred times as often as usual, so that races have more occasions."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 100)
    yield
    sys.setswitchinterval(usual)


class HandClock:
    """A clock for SystemTimer(clock=...) that stands still until it is moved."""

    def __init__(self):
        self.ms = 1_000_000

    def __call__(self):
        return self.ms


@pytest.fixture
def hand_clock():
    return HandClock()


# A script that hangs says where, and ends before the test gives up on it.
PRELUDE = """\
import faulthandler, gc, os, signal, sys, threading, time, traceback
from array import array
faulthandler.dump_traceback_later(150, exit=True)
from hwheel import ManualTimer, SystemTimer, TimerTask, TimingWheel
from waiting import eventually


def in_child(function):
    # Forks; runs function() in the child, which is killed if it hangs; and insists that it came to its end.
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
        signal.alarm(90)
        try:
            function()
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with status {status}"

"""


@pytest.fixture
def run_script(tmp_path):
    """run_script(text) -> (exit code, stdout, stderr) of the text as a Python program of its own, after a prelude."""

    def run(text, *options):
        skip_unless_there(text)
        path = tmp_path / "script.py"
        path.write_text(PRELUDE + text)
        # From 3.12 on Python warns of every fork in a process with threads, which is what is tested here.
        ended = run_python("-W", "ignore::DeprecationWarning", *options, path, patience_s=200, cwd=tmp_path)
        print(ended.out, ended.err)  # pytest shows it whole if the test fails
        return ended

    return run
