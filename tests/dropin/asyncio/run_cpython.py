"""Runs one module of CPython's own test.test_asyncio with every event loop in it on the wheel.

    python run_cpython.py test_tasks [name part ...]

The names that those modules use are swapped before they are imported. Prints one line of JSON: how many tests ran, and
the outcome of each that did not pass.
"""

import asyncio
import importlib
import json
import signal
import sys
import unittest
import warnings

from hwheel.asyncio import EventLoop, wheel_loop
from hwheel.asyncio.timers import WheelTimers

rang = 0


def count_alarms():
    """That the wheel was at work at all."""
    ring = WheelTimers._on_wakeup

    def counted(self, *args):
        global rang
        rang += 1
        ring(self, *args)

    WheelTimers._on_wakeup = counted


def swap_names():
    asyncio.SelectorEventLoop = asyncio.unix_events.SelectorEventLoop = EventLoop
    asyncio.base_events.BaseEventLoop = asyncio.BaseEventLoop = wheel_loop(asyncio.BaseEventLoop)
    if hasattr(asyncio, "EventLoop"):
        asyncio.EventLoop = EventLoop
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.DefaultEventLoopPolicy._loop_factory = EventLoop


def main(module_name, parts):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background of a shell ignores
    swap_names()
    count_alarms()
    module = importlib.import_module(f"test.test_asyncio.{module_name}")
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    if parts:
        suite = unittest.TestSuite(test for test in each(suite) if any(part in test.id() for part in parts))
    result = unittest.TextTestRunner(verbosity=1, stream=sys.stderr).run(suite)
    bad = {short(test): text for test, text in result.failures + result.errors}
    bad |= {short(test): "unexpected success" for test in result.unexpectedSuccesses}
    print(json.dumps({"ran": result.testsRun, "skipped": len(result.skipped), "rang": rang, "bad": bad}))


def each(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


def short(test):
    return ".".join(test.id().split(".")[-2:])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
