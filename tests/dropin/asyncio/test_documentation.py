"""Docstrings, imports, and the example of idle timeouts."""

import doctest
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hwheel.asyncio

PUBLIC = [name for name in hwheel.asyncio.__all__ if name not in ("EventLoopPolicy", "install")]
MODULES = ["hwheel.asyncio.loop", "hwheel.asyncio.loop_class"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted >= 3 and result.failed == 0


def test_docstring_examples_of_compiled_classes():
    runner = doctest.DocTestRunner()
    tests = doctest.DocTestFinder().find(hwheel.asyncio.TimerHandle, "TimerHandle", globs={})
    (example,) = [test for test in tests if test.examples]
    assert runner.run(example).failed == 0


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_docstring(name):
    assert getattr(hwheel.asyncio, name).__doc__


def test_import_does_not_load_the_policy():
    command = "import hwheel.asyncio, sys; assert 'hwheel.asyncio.policy' not in sys.modules"
    subprocess.run([sys.executable, "-P", "-W", "error", "-c", command], check=True, timeout=60)


def test_import_of_hwheel_does_not_load_asyncio():
    command = "import hwheel, sys; assert 'hwheel.asyncio' not in sys.modules"
    subprocess.run([sys.executable, "-P", "-W", "error", "-c", command], check=True, timeout=60)


def test_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        hwheel.asyncio.nothing  # noqa: B018


EXAMPLE = Path(__file__).parents[3] / "examples" / "idle_timeout_server.py"


@pytest.mark.skipif(importlib.util.find_spec("resource") is None, reason="the example needs resource limits")
def test_idle_timeout_example_drops_all_idle_connections():
    command = [sys.executable, "-P", str(EXAMPLE), "--connections", "100", "--seconds", "1", "--idle", "0.4"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    line = r"([\d,]+) messages.* dropped (\d+) while the others talked, (\d+) after, left open (\d+)"
    outcomes = re.findall(line, run.stdout)
    assert len(outcomes) == 3
    for messages, early, late, still_open in outcomes:
        assert int(messages.replace(",", "")) >= 100
        assert int(early) + int(late) == 100
        assert int(early) >= 10 or int(late) > 90  # on a slow machine idle connections may last until the end
        assert still_open == "0"
