"""CPython's own tests of sched and threading.Timer, run with hwheel's classes in their place.

All of test.test_sched and all Timer tests of test.test_threading pass. If a later Python adds tests of private fields,
list them in NOT_APPLICABLE, each with its reason.
"""

import threading
import types
import unittest

import pytest

import hwheel.sched
import hwheel.threading

MISSING = "this Python has no package `test`"
test_sched = pytest.importorskip("test.test_sched", reason=MISSING)
test_threading = pytest.importorskip("test.test_threading", reason=MISSING)

NOT_APPLICABLE: dict[str, str] = {}


def cases_of(*classes):
    return [
        pytest.param(cls, name, id=f"{cls.__name__}.{name}")
        for cls in classes
        for name in unittest.defaultTestLoader.getTestCaseNames(cls)
    ]


SCHED_TESTS = cases_of(test_sched.TestCase)
TIMER_TESTS = cases_of(test_threading.TimerTests)


def problems_of(cls, name):
    """Run one test. Return the traceback of each failure."""
    result = unittest.TestResult()
    cls(name).run(result)
    assert result.testsRun == 1
    for _, reason in result.skipped:
        pytest.skip(reason)
    return [traceback for _, traceback in result.errors + result.failures]


def skip_if_not_applicable(name):
    if name in NOT_APPLICABLE:
        pytest.skip(NOT_APPLICABLE[name])


def threading_with(timer):
    """Return a copy of the module threading with another Timer."""
    module = types.ModuleType("threading")
    vars(module).update(vars(threading), Timer=timer)
    return module


def test_enough_tests_of_cpython_are_collected():
    assert len(SCHED_TESTS) >= 11
    assert len(TIMER_TESTS) >= 1


@pytest.mark.parametrize(("cls", "name"), SCHED_TESTS)
def test_sched_of_cpython(monkeypatch, cls, name):
    skip_if_not_applicable(name)
    monkeypatch.setattr(test_sched, "sched", hwheel.sched)
    assert problems_of(cls, name) == []


@pytest.mark.parametrize(("cls", "name"), TIMER_TESTS)
def test_timer_of_cpython(monkeypatch, cls, name):
    skip_if_not_applicable(name)
    monkeypatch.setattr(test_threading, "threading", threading_with(hwheel.threading.Timer))
    assert problems_of(cls, name) == []


class _Unsorted(hwheel.sched.scheduler):
    """A wrong scheduler: it runs events in reverse order."""

    def run(self, blocking=True):
        for event in self.queue[::-1]:
            self.cancel(event)
            event.action(*event.argument, **event.kwargs)


class _Sharing(hwheel.threading.Timer):
    """A wrong Timer: all timers share their default arguments."""

    def __init__(self, interval, function, args=[], kwargs={}):  # noqa: B006
        super().__init__(interval, function, args, kwargs)


def test_cpythons_tests_find_faults_in_the_replacements(monkeypatch):
    monkeypatch.setattr(test_sched, "sched", types.SimpleNamespace(scheduler=_Unsorted))
    assert problems_of(test_sched.TestCase, "test_enterabs")
    monkeypatch.setattr(test_threading, "threading", threading_with(_Sharing))
    assert problems_of(test_threading.TimerTests, "test_init_immutable_default_args")
