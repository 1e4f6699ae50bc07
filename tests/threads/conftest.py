"""Executors and scripts for the tests of SystemTimer."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from programs import environment
from sampling import search_seconds
from systems import skip_unless_supported


@pytest.fixture
def pool():
    """Return an executor that does not belong to the timer."""
    with ThreadPoolExecutor(4, thread_name_prefix="pool") as executor:
        # Start all threads now: a thread keeps the threading.excepthook that was set when it started.
        barrier = threading.Barrier(4)
        wait([executor.submit(barrier.wait) for _ in range(4)])
        yield executor


@pytest.fixture(params=["own thread", "inline", "pool"])
def executor(request):
    """Return SystemTimer's argument for each kind of executor that runs callbacks in this process."""
    if request.param == "pool":
        return request.getfixturevalue("pool")
    return None if request.param == "own thread" else "inline"


@pytest.fixture(params=["own thread", "inline", "pool of one"])
def ordered_executor(request):
    """Return SystemTimer's argument for each kind of executor that keeps the order of dispatch."""
    if request.param == "pool of one":
        with ThreadPoolExecutor(1) as one_thread:
            yield one_thread
    else:
        yield None if request.param == "own thread" else "inline"


@pytest.fixture
def soak_seconds():
    """Return the duration of a search for races."""
    return search_seconds(2)


@pytest.fixture
def script(tmp_path):
    """Return script(text), which starts the text as a Python program and returns its Popen."""
    started = []

    def start(text):
        skip_unless_supported(text)
        path = tmp_path / f"script{len(started)}.py"
        path.write_text(
            f"import faulthandler\nfaulthandler.dump_traceback_later({100 + 3 * search_seconds(2)}, exit=True)\n" + text
        )
        started.append(
            subprocess.Popen(
                [sys.executable, path],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=tmp_path,
                env=environment(),
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
