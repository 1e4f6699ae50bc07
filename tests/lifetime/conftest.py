"""What the tests of lifetimes share: scripts in processes of their own, and a switched-off garbage collector."""

import gc
import os
import subprocess
import sys

import pytest

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


@pytest.fixture
def no_gc():
    """What is released in this test is released by reference count alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
