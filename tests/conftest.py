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

sys.path.append(str(Path(__file__).parent / "helpers"))  # the suite's import mode does not add it
import sampling
import waiting
from folder_times import FolderTimes
from programs import run_python, stop_ignoring_signals
from systems import skip_unless_supported

SEED_REPORT = "randomized tests use the seed {0}; HWHEEL_SEED={0} repeats this run"
FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Set the seed before Hypothesis reads its option."""
    stop_ignoring_signals()
    config.pluginmanager.register(FolderTimes(Path(__file__).parent))
    given = config.getoption("hypothesis_seed", None)
    if given is not None:
        sampling.set_seed(int(given))
    elif sampling.SEED is not None:
        config.option.hypothesis_seed = str(sampling.SEED)


def pytest_sessionstart(session):
    if sampling.SEED is not None:
        session.config.get_terminal_writer().line(SEED_REPORT.format(sampling.SEED))


def pytest_terminal_summary(terminalreporter):
    if sampling.SEED is not None:
        terminalreporter.section("seed")
        terminalreporter.line(SEED_REPORT.format(sampling.SEED))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(autouse=True)
def nothing_left_behind(request):
    """Fail a test that leaves a timer's thread running, or in a debug build a timer, task, or batch."""
    live_before = hwheel_core.debug_live() if hwheel_core.DEBUG else None
    threads_before = set(threading.enumerate())
    yield
    give_up = time.monotonic() + waiting.PATIENCE_S  # a collection takes seconds on a slow build and a busy machine
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
        return  # its traceback keeps its objects alive
    if live_before is not None and not request.node.get_closest_marker("leaves_objects"):
        # Fewer objects than before are fine: the traceback of an earlier failed test may have been released. An
        # executor's thread may need a moment to release the last task.
        while True:
            live = hwheel_core.debug_live()
            if all(now <= before for now, before in zip(live, live_before, strict=True)):
                break
            assert time.monotonic() < give_up, f"(timers, tasks, batches) left behind: {live_before} before, {live} now"
            gc.collect()  # can take seconds after a long search
            time.sleep(0.01)


@pytest.fixture(scope="session")
def the_engine_runs():
    """Start the engine and the timer that all hwheel.Timers and containers of the process share.

    Otherwise a test would seem to leave them behind.
    """
    hwheel.ExpiringDict(1)["a"] = 1
    timer = hwheel.Timer(0, int)
    timer.start()
    timer.join()


@pytest.fixture
def no_gc_callbacks():
    """Leave out the garbage collector's callbacks, such as Hypothesis's: one that a strike hits would fail the test."""
    left_out = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks.extend(left_out)


@pytest.fixture
def eventually():
    """Return eventually(condition), which waits until condition() is true."""
    return waiting.eventually


@pytest.fixture
def short_path():
    """Return a directory for Unix sockets, whose paths are limited to about 100 bytes (tmp_path is longer on macOS)."""
    with tempfile.TemporaryDirectory(prefix="hwheel-", dir="/tmp") as directory:
        yield Path(directory)


@pytest.fixture
def make_timer():
    """Return a factory of SystemTimers that are closed at the end of the test."""
    made = []

    def make(*args, **kwargs):
        made.append(hwheel.SystemTimer(*args, **kwargs))
        return made[-1]

    yield make
    while made:  # empty the list, because pytest keeps `make` alive while nothing_left_behind counts objects
        made.pop().close()


@pytest.fixture
def many_switches():
    """Switch threads a hundred times as often as usual, to provoke races."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 100)
    yield
    sys.setswitchinterval(usual)


class HandClock:
    """A clock for SystemTimer(clock=...) that a test sets."""

    def __init__(self):
        self.ms = 1_000_000

    def __call__(self):
        return self.ms


@pytest.fixture
def hand_clock():
    return HandClock()


# A script that hangs prints its stacks and exits before the test times out.
PRELUDE = """\
import faulthandler, gc, os, signal, sys, threading, time, traceback
from array import array
faulthandler.dump_traceback_later(150, exit=True)
from hwheel import ManualTimer, SystemTimer, TimerTask, TimingWheel
from waiting import eventually


def in_child(function):
    # Run function() in a forked child, which is killed if it hangs, and fail unless the child succeeds.
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
    """Return run_script(text), which runs the prelude and the text as a program and returns (status, out, err)."""

    def run(text, *options):
        skip_unless_supported(text)
        path = tmp_path / "script.py"
        path.write_text(PRELUDE + text)
        # Python 3.12 and later warn about every fork in a process with threads, which many tests do on purpose.
        ended = run_python("-W", "ignore::DeprecationWarning", *options, path, patience_s=200, cwd=tmp_path)
        print(ended.out, ended.err)  # pytest shows the whole output if the test fails
        return ended

    return run


@pytest.fixture
def ends_well(run_script):
    """Return ends_well(text), which runs a program and fails unless it succeeds and writes nothing."""

    def run(text):
        assert run_script(text) == (0, "", "")

    return run
