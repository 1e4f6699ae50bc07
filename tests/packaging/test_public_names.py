"""What users import stays where it is, in whatever room it is made: so do pickles and the names in reports."""

import doctest
import importlib
import pickle
import pkgutil

import pytest

import hwheel

pytestmark = pytest.mark.usefixtures("the_engine_runs")
MODULES = ["hwheel", "hwheel.threading", "hwheel.sched", "hwheel.asyncio", "hwheel.purgatory", "hwheel.metrics",
           "hwheel.replay", "hwheel.recorder", "hwheel.spark"]
HOMES = {"hwheel.threading": "hwheel"}      # of what is to be had from two modules


@pytest.fixture(params=MODULES)
def module(request):
    try:
        return importlib.import_module(request.param)
    except ImportError as error:
        pytest.skip(str(error))


def public_classes(module):
    found = [getattr(module, name) for name in module.__all__ if name not in ("EventLoopPolicy", "install")]    # which warn
    return [one for one in found if isinstance(one, type) and one.__module__.split(".")[0] == "hwheel"]


def test_a_class_says_that_it_lives_where_users_import_it_from(module):
    for public in public_classes(module):
        assert public.__module__ == HOMES.get(module.__name__, module.__name__), public
        if public.__name__ != "WheelUnixSelectorEventLoop":     # wheel_loop() names what it makes after its base
            assert pickle.loads(pickle.dumps(public)) is public


def test_the_examples_in_the_docstrings_are_true(module):
    assert doctest.testmod(module).failed == 0


def test_the_counters_of_a_timer_can_be_pickled():
    from hwheel import ManualTimer

    stats = ManualTimer().stats()
    assert pickle.loads(pickle.dumps(stats)) == stats
    assert b"hwheel.timers" not in pickle.dumps(stats)


def test_every_error_of_the_package_is_a_HwheelError():
    errors = set()
    for module in pkgutil.walk_packages(hwheel.__path__, "hwheel.", onerror=lambda name: None):
        try:
            names = vars(importlib.import_module(module.name))
        except ImportError:
            continue            # of an extra that is not installed here
        errors |= {one for one in names.values() if isinstance(one, type) and issubclass(one, BaseException)
                   and one.__module__.startswith("hwheel")}
    assert len(errors) >= 4
    assert [error for error in errors if not issubclass(error, hwheel.HwheelError)] == []
