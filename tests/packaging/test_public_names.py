"""What users import stays where it is, in whatever room it is made: so do pickles and the names in reports."""

import copy
import doctest
import importlib
import inspect
import pickle
import pydoc
import re
import sys
from array import array
from functools import partial

import pytest

import hwheel
from hwheel import purgatory

pytestmark = pytest.mark.usefixtures("the_engine_runs")
MODULES = [
    "hwheel",
    "hwheel.c_api",
    "hwheel.threading",
    "hwheel.twisted",
    "hwheel.sched",
    "hwheel.asyncio",
    "hwheel.purgatory",
    "hwheel.metrics",
    "hwheel.live",
    "hwheel.replay",
    "hwheel.recorder",
    "hwheel.spark",
]
FEWEST_EXAMPLES = {  # in the docstrings of a module
    "hwheel": 60,
    "hwheel.c_api": 3,
    "hwheel.sched": 10,
    "hwheel.asyncio": 18,
    "hwheel.purgatory": 13,
    "hwheel.metrics": 10,
    "hwheel.live": 7,
    "hwheel.replay": 5,
}
HOMES = {"hwheel.threading": "hwheel"}  # of what is to be had from two modules


@pytest.fixture(params=MODULES)
def module(request):
    try:
        return importlib.import_module(request.param)
    except ImportError as error:
        pytest.skip(str(error))


def public_classes(module):
    found = [
        getattr(module, name) for name in module.__all__ if name not in ("EventLoopPolicy", "install")
    ]  # which warn
    return [one for one in found if isinstance(one, type) and one.__module__.split(".")[0] in ("hwheel", "hwheel_core")]


def test_a_class_says_that_it_lives_where_users_import_it_from(module):
    for public in public_classes(module):
        assert public.__module__ == HOMES.get(module.__name__, module.__name__), public
        if public.__name__ != "WheelUnixSelectorEventLoop":  # wheel_loop() names what it makes after its base
            assert pickle.loads(pickle.dumps(public)) is public


@pytest.mark.parametrize(("make", "most"), [(hwheel.SystemTimer, 169), (hwheel.ManualTimer, 146)])
def test_help_fits_on_two_screens_and_names_what_is_public(make, most):
    # From 3.13 on pydoc says behind a method in which module its class is, and a signature has a line an argument.
    shown = re.sub(r" from hwheel\.timers[\w.]*$", "", pydoc.plain(pydoc.render_doc(make)), flags=re.MULTILINE)
    lines = shown.splitlines()
    assert len(lines) - (2 * len(inspect.signature(make).parameters) + 4 if sys.version_info >= (3, 13) else 0) <= most
    signatures = [line for line in lines if "name: str" in line or "(self, " in line or " Union[" in line]
    assert max(len(line) for line in lines if line not in signatures) <= 100
    for hidden in ("hwheel_core", "hwheel.timers", "Core", "Face", "cython"):
        assert not [line for line in lines if hidden in line], hidden
    assert [one.__name__ for one in make.__mro__] == [make.__name__, "BaseTimer", "object"]


class Operation(purgatory.DelayedOperation):
    """At the top of a module, so that its class is not what cannot be pickled."""


def test_what_waits_or_holds_what_waits_is_neither_pickled_nor_copied_but_its_class_is():
    with hwheel.ManualTimer() as timer:
        batch = timer.call_many(array("q", [1]), print)
        operations = purgatory.DelayedOperationPurgatory("not pickled", timer)
        for one in [
            timer,
            timer.call_later(1, print),
            hwheel.TimerTask(1),
            batch,
            hwheel.TimingWheel(1, 20),
            operations,
            Operation(1),
        ]:
            ways = [copy.copy, copy.deepcopy]
            ways += [partial(pickle.dumps, protocol=number) for number in range(2, pickle.HIGHEST_PROTOCOL + 1)]
            for way in ways:
                with pytest.raises(TypeError, match=r"^cannot pickle '[\w.]+' object"):
                    way(one)
            assert pickle.loads(pickle.dumps(type(one))) is type(one)


def test_the_examples_in_the_docstrings_are_true(module):
    result = doctest.testmod(module)
    assert result.failed == 0 and result.attempted >= FEWEST_EXAMPLES.get(module.__name__, 0)


def test_the_counters_of_a_timer_can_be_pickled():
    from hwheel import ManualTimer

    stats = ManualTimer().stats()
    assert pickle.loads(pickle.dumps(stats)) == stats
    assert b"hwheel.timers" not in pickle.dumps(stats)
