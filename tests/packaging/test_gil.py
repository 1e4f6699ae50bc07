"""On a CPython without a GIL the package goes without one, and nothing that is imported of it brings it back."""

import pytest

from programs import output_of
from systems import FREE_THREADED

MODULES = [
    "hwheel",
    "hwheel.asyncio",
    "hwheel.c_api",
    "hwheel.containers",
    "hwheel.live",
    "hwheel.metrics",
    "hwheel.purgatory",
    "hwheel.recorder",
    "hwheel.sched",
    "hwheel.threading",
]


@pytest.mark.skipif(not FREE_THREADED, reason="this Python has a GIL")
def test_an_import_does_not_switch_the_gil_on():
    use = "timer = hwheel.SystemTimer(); hwheel.TimerTask(0); timer.call_later(0, int); timer.close()"
    code = f"import sys, {', '.join(MODULES)}; {use}; print(sys._is_gil_enabled())"
    # CPython warns when a module switches it on. Empty, the variable says nothing about it.
    assert output_of("-W", "error", "-c", code, env={"PYTHON_GIL": ""}) == "False\n"
