"""What the docstrings of hwheel.asyncio show is what happens."""

import doctest
import importlib
import subprocess
import sys

import pytest

import hwheel.asyncio

PUBLIC = [name for name in hwheel.asyncio.__all__ if name not in ("EventLoopPolicy", "install")]
MODULES = ["hwheel.asyncio.loop", "hwheel.asyncio.loop_class"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("module", MODULES)
def test_the_examples_in_the_docstrings_are_true(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted >= 3 and result.failed == 0


def test_the_examples_of_the_compiled_classes_are_true():
    runner = doctest.DocTestRunner()
    tests = doctest.DocTestFinder().find(hwheel.asyncio.TimerHandle, "TimerHandle", globs={})
    (example,) = [test for test in tests if test.examples]
    assert runner.run(example).failed == 0


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_says_what_it_is(name):
    assert getattr(hwheel.asyncio, name).__doc__


def test_importing_it_asks_for_no_policy():
    command = "import hwheel.asyncio, sys; assert 'hwheel.asyncio.policy' not in sys.modules"
    subprocess.run([sys.executable, "-P", "-W", "error", "-c", command], check=True, timeout=60)


def test_importing_hwheel_does_not_import_asyncio():
    command = "import hwheel, sys; assert 'hwheel.asyncio' not in sys.modules"
    subprocess.run([sys.executable, "-P", "-W", "error", "-c", command], check=True, timeout=60)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        hwheel.asyncio.nothing  # noqa: B018
