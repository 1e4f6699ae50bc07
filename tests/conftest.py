"""Fixtures for the whole suite. The suite runs against the installed package, never against the source tree."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import hwheel
import hwheel_core


PATIENCE_S = 60
FAILED = pytest.StashKey[bool]()


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
    give_up = time.monotonic() + 5
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
        return          # its traceback holds on to what it used
    if live_before is not None and not request.node.get_closest_marker("leaves_objects"):
        # Fewer is no fault: what a failed test before this one left in its traceback may be gone by now. A thread of
        # an executor may need a moment to let go of what it ran.
        while True:
            live = hwheel_core.debug_live()
            if all(now <= before for now, before in zip(live, live_before, strict=True)):
                break
            gc.collect()
            assert time.monotonic() < give_up, f"(timers, tasks, batches) left behind: {live_before} before, {live} now"
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

    def wait(condition, what="the condition"):
        give_up = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up, f"{what} did not come about in {PATIENCE_S} s"
            time.sleep(0.002)

    return wait


@pytest.fixture
def many_switches():
    """Threads take turns a hundred times as often as usual, so that races have more occasions."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 100)
    yield
    sys.setswitchinterval(usual)


@pytest.fixture
def ctrl_c_reaches_children():
    """Programs that the test starts take SIGINT as Python usually does. One that is ignored stays so in a child, because
    that is inherited: and a shell has what it runs in the background ignore it, this suite, too."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


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


def wait_for(condition):
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up, "nothing came of it"
        time.sleep(0.002)


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
        path = tmp_path / "script.py"
        path.write_text(PRELUDE + text)
        done = subprocess.run(
            # From 3.12 on Python warns of every fork in a process with threads, which is what is tested here.
            [sys.executable, "-W", "ignore::DeprecationWarning", *options, path],
            capture_output=True,
            text=True,
            timeout=200,
            cwd=tmp_path,
            env={**os.environ, "PYTHONSAFEPATH": "1"},
        )
        print(done.stdout, done.stderr)     # pytest shows it whole if the test fails
        return done.returncode, done.stdout, done.stderr

    return run
