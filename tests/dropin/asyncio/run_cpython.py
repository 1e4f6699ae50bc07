"""Run one module of CPython's test.test_asyncio with its loops on the wheel, with hwheel's timeouts, or both.

    python run_cpython.py loops test_tasks [name part ...]
    python run_cpython.py timeouts test_timeouts
    python run_cpython.py loops,timeouts test_timeouts

Replace the names that the module uses before importing it. Print one line of JSON: the number of tests, and the outcome
of each test that did not pass.
"""

import asyncio
import importlib
import json
import signal
import sys
import unittest
import warnings

import hwheel.asyncio
from hwheel.asyncio import EventLoop, wheel_loop
from hwheel.asyncio.timers import WheelTimers

wakeups = 0


def count_wakeups():
    """Count wake-ups, to prove that the tests used the wheel."""
    on_wakeup = WheelTimers._on_wakeup

    def counted(self, *args):
        global wakeups
        wakeups += 1
        on_wakeup(self, *args)

    WheelTimers._on_wakeup = counted


def swap_names():
    asyncio.SelectorEventLoop = asyncio.unix_events.SelectorEventLoop = EventLoop
    asyncio.base_events.BaseEventLoop = asyncio.BaseEventLoop = wheel_loop(asyncio.BaseEventLoop)
    if hasattr(asyncio, "EventLoop"):
        asyncio.EventLoop = EventLoop
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.DefaultEventLoopPolicy._loop_factory = EventLoop


def swap_timeouts():
    for name in ("timeout", "timeout_at", "Timeout"):
        setattr(asyncio, name, getattr(hwheel.asyncio, name))
        setattr(asyncio.timeouts, name, getattr(hwheel.asyncio, name))
    asyncio.wait_for = asyncio.tasks.wait_for = hwheel.asyncio.wait_for


def main(swaps, module_name, parts):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores SIGINT
    if "loops" in swaps:
        swap_names()
    if "timeouts" in swaps:
        swap_timeouts()
    count_wakeups()
    module = importlib.import_module(f"test.test_asyncio.{module_name}")
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    if parts:
        suite = unittest.TestSuite(test for test in each(suite) if any(part in test.id() for part in parts))
    result = unittest.TextTestRunner(verbosity=1, stream=sys.stderr).run(suite)
    bad = {short(test): text for test, text in result.failures + result.errors}
    bad |= {short(test): "unexpected success" for test in result.unexpectedSuccesses}
    print(json.dumps({"ran": result.testsRun, "skipped": len(result.skipped), "wakeups": wakeups, "bad": bad}))


def each(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


def short(test):
    return ".".join(test.id().split(".")[-2:])


if __name__ == "__main__":
    main(sys.argv[1].split(","), sys.argv[2], sys.argv[3:])
