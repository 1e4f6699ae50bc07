"""What the tests of a SystemTimer and its threads share. They wait for events, generously, never for a time."""

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
    """An executor that is not the timer's own."""
    with ThreadPoolExecutor(4, thread_name_prefix="pool") as executor:
        # All threads now: a thread holds on to the threading.excepthook that it was started under.
        everyone = threading.Barrier(4)
        wait([executor.submit(everyone.wait) for _ in range(4)])
        yield executor


@pytest.fixture(params=["own thread", "inline", "pool"])
def executor(request):
    """Every kind of executor that runs callbacks in this process, as SystemTimer's argument."""
    if request.param == "pool":
        return request.getfixturevalue("pool")
    return None if request.param == "own thread" else "inline"


@pytest.fixture(params=["own thread", "inline", "pool of one"])
def ordered_executor(request):
    """Every executor that keeps the order in which tasks are handed to it."""
    if request.param == "pool of one":
        with ThreadPoolExecutor(1) as one_thread:
            yield one_thread
    else:
        yield None if request.param == "own thread" else "inline"


@pytest.fixture
def soak_seconds():
    """How long a test that looks for races goes on."""
    return search_seconds(2)


@pytest.fixture
def script(tmp_path):
    """script(text): a file with that text as a running Python program, to talk to and to wait for."""
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
