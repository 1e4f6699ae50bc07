"""CPython's own tests of asyncio, with each loop on the wheel, and with hwheel's timeouts.

Tests that cannot apply are listed here. A listed test that passes is a failure, and so is an unlisted one that fails.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).with_name("run_cpython.py")

# Module of test.test_asyncio -> its minimum number of tests in any supported version of Python.
FEWEST_TESTS = {
    "test_base_events": 90,
    "test_events": 200,
    "test_futures": 100,
    "test_locks": 60,
    "test_queues": 40,
    "test_runners": 20,
    "test_selector_events": 90,
    "test_streams": 50,
    "test_taskgroups": 30,
    "test_tasks": 500,
    "test_timeouts": 25,
    "test_unix_events": 60,
    "test_waitfor": 12,
}
# Module of test.test_asyncio -> {test: why it cannot apply}.
CANNOT_APPLY = {
    "test_base_events": {
        "BaseEventLoopTests.test_call_later": "reads the private list loop._scheduled",
        "BaseEventLoopTests.test__run_once_cancelled_event_cleanup": (
            "counts cancelled handles in loop._scheduled, but a cancel removes its handle from the wheel"
        ),
    },
    "test_events": {},
    "test_futures": {},
    "test_locks": {},
    "test_queues": {},
    "test_runners": {},
    "test_selector_events": {},
    "test_streams": {},
    "test_taskgroups": {},
    "test_tasks": {},
    "test_timeouts": {},
    "test_unix_events": {},
    "test_waitfor": {},
}
MANY_TIMERS = ["test_base_events", "test_events", "test_tasks", "test_timeouts", "test_waitfor"]


WITH_TIMEOUTS = ["test_timeouts", "test_waitfor"]
if sys.version_info < (3, 12):
    CANNOT_APPLY_WITH_TIMEOUTS = {
        "AsyncioWaitForTest.test_wait_for_self_cancellation": (
            "expects that a result is dropped if wait_for() is cancelled; Python 3.12 changed that"
        )
    }
else:
    CANNOT_APPLY_WITH_TIMEOUTS = {}

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("test.test_asyncio") is None,
        reason="this Python was installed without its `test` package",
    ),
    pytest.mark.skipif(sys.platform != "linux", reason="the list of exceptions is for Linux"),
]


def run_module(swaps, module, folder, cannot_apply):
    run = subprocess.run(
        [sys.executable, "-P", str(RUNNER), swaps, module],
        capture_output=True,
        text=True,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    outcome = json.loads(run.stdout.splitlines()[-1])
    unexpected = {test: text for test, text in outcome["bad"].items() if test not in cannot_apply}
    assert not unexpected, "\n".join(unexpected.values())
    assert set(outcome["bad"]) == set(cannot_apply), "a test that is listed as not applicable passes"
    assert outcome["ran"] - outcome["skipped"] >= FEWEST_TESTS[module]
    return outcome


@pytest.mark.parametrize("module", CANNOT_APPLY)
def test_cpython_tests_pass_on_the_wheel(module, tmp_path):
    outcome = run_module("loops", module, tmp_path, CANNOT_APPLY[module])
    if module in MANY_TIMERS:
        assert outcome["wakeups"], "no timer of these tests was on the wheel"


@pytest.mark.parametrize("swaps", ["timeouts", "loops,timeouts"])
@pytest.mark.parametrize("module", WITH_TIMEOUTS)
def test_cpython_tests_pass_with_the_compiled_timeouts(swaps, module, tmp_path):
    run_module(swaps, module, tmp_path, CANNOT_APPLY_WITH_TIMEOUTS if module == "test_waitfor" else {})
