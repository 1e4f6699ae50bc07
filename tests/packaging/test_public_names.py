"""Public names: where they live, pickling, help(), examples in docstrings, and the errors."""

import copy
import doctest
import importlib
import inspect
import operator
import pickle
import pkgutil
import pydoc
import re
import sys
import warnings
from array import array
from functools import partial
from pathlib import Path

import pytest

import hwheel
import hwheel_core
from hwheel import purgatory
from programs import output_of

pytestmark = pytest.mark.usefixtures("the_engine_runs")
# {module: minimum number of examples in its docstrings}
MODULES = {
    "hwheel": 60,
    "hwheel.asyncio": 18,
    "hwheel.c_api": 3,
    "hwheel.cachetools": 8,
    "hwheel.live": 7,
    "hwheel.metrics": 10,
    "hwheel.purgatory": 13,
    "hwheel.recorder": 2,
    "hwheel.replay": 5,
    "hwheel.sched": 10,
    "hwheel.spark": 0,
    "hwheel.threading": 0,
    "hwheel.twisted": 0,
}
INSTALLS_ONCE = {"hwheel.twisted"}  # a reactor, once in a process
RUN_EXAMPLE = """
import doctest, importlib, operator, sys
member = operator.attrgetter(sys.argv[2])(importlib.import_module(sys.argv[1]))
test = doctest.DocTestParser().get_doctest(member.__doc__, {}, sys.argv[2], None, 0)
assert test.examples and doctest.DocTestRunner().run(test).failed == 0
"""
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
HOMES = {"hwheel.threading": "hwheel"}  # of classes that two modules export


@pytest.fixture(params=MODULES)
def module(request):
    try:
        return importlib.import_module(request.param)
    except ImportError as error:
        pytest.skip(str(error))


def public_classes(module):
    deprecated = ("EventLoopPolicy", "install")
    found = [getattr(module, name) for name in module.__all__ if name not in deprecated]
    return [one for one in found if isinstance(one, type) and one.__module__.split(".")[0] in ("hwheel", "hwheel_core")]


def test_every_module_loads_on_first_access(module):
    if module.__name__ not in INSTALLS_ONCE:
        name = module.__name__
        assert output_of("-c", f"import hwheel; print({name}.__name__)") == f"{name}\n"


def test_a_class_lives_in_the_module_that_users_import_it_from(module):
    for public in public_classes(module):
        assert public.__module__ == HOMES.get(module.__name__, module.__name__), public
        if public.__name__ != "WheelUnixSelectorEventLoop":  # wheel_loop() names its classes after their base
            assert pickle.loads(pickle.dumps(public)) is public


def test_examples_in_docstrings(module, tmp_path, monkeypatch):
    if module.__name__ in INSTALLS_ONCE:
        pytest.skip("the examples of the reference run in a process each")
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(module)
    assert result.failed == 0 and result.attempted >= MODULES[module.__name__]


def listed_callables():
    """Return (module, name) of every function and method that the reference lists."""
    directive = re.compile(r" *\.\. (?:py:)?(module|automodule|autoclass|autofunction|automethod):: ([\w.]+)")
    listed = []
    for page in sorted(REFERENCE.glob("*.md")):
        module_name = class_name = ""
        for kind, name in directive.findall(page.read_text("utf-8")):
            if kind.endswith("module"):
                module_name = name
            elif kind == "autoclass":
                class_name = name
            else:
                listed.append((module_name, name if kind == "autofunction" else f"{class_name}.{name}"))
    return listed


def test_the_reference_lists_functions_and_methods():
    assert len(listed_callables()) >= 125


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("module_name", "name"), listed_callables())
def test_every_listed_function_and_method_has_an_example(module_name, name, tmp_path, monkeypatch):
    """doctest.testmod() finds neither methods of compiled or private modules nor inherited ones."""
    try:
        member = operator.attrgetter(name)(importlib.import_module(module_name))
    except ImportError as error:
        pytest.skip(str(error))
    test = doctest.DocTestParser().get_doctest(member.__doc__, {}, f"{module_name}.{name}", None, 0)
    assert test.examples
    if module_name in INSTALLS_ONCE:
        output_of("-W", "ignore", "-c", RUN_EXAMPLE, module_name, name, cwd=tmp_path)
        return
    monkeypatch.chdir(tmp_path)
    assert doctest.DocTestRunner().run(test).failed == 0


def test_every_public_class_and_method_has_a_docstring(module):
    for public in public_classes(module):
        assert public.__doc__, public
        ours = [base for base in public.__mro__ if base.__module__.startswith("hwheel")]
        for name in {name for base in ours for name in vars(base) if not name.startswith("_")}:
            member = getattr(public, name)
            if callable(member) and not issubclass(public, tuple | Exception):
                assert member.__doc__, f"{public.__name__}.{name} has no docstring"


@pytest.mark.parametrize("make", [hwheel.SystemTimer, hwheel.ManualTimer])
def test_help_names_only_what_is_public(make):
    # From 3.13 on pydoc adds the module of the class to a method.
    shown = re.sub(r" from hwheel\.timers[\w.]*$", "", pydoc.plain(pydoc.render_doc(make)), flags=re.MULTILINE)
    for hidden in ("hwheel_core", "hwheel.timers", "Core", "Face", "cython"):
        assert [line for line in shown.splitlines() if hidden in line] == [], hidden
    assert [one.__name__ for one in make.__mro__] == [make.__name__, "BaseTimer", "object"]


# --- pickling ---------------------------------------------------------------------------------------------------------


class Operation(purgatory.DelayedOperation):
    """At the top level of a module, so that pickle finds the class."""


def test_timers_and_tasks_are_neither_pickled_nor_copied():
    with hwheel.ManualTimer() as timer:
        batch = timer.call_many(array("q", [1]), print)
        operations = purgatory.DelayedOperationPurgatory("not pickled", timer)
        objects = [timer, timer.call_later(1, print), hwheel.TimerTask(1), batch, hwheel.TimingWheel(1, 20)]
        for one in [*objects, operations, Operation(1)]:
            ways = [copy.copy, copy.deepcopy]
            ways += [partial(pickle.dumps, protocol=number) for number in range(2, pickle.HIGHEST_PROTOCOL + 1)]
            for way in ways:
                with pytest.raises(TypeError, match=r"^cannot pickle '[\w.]+' object"):
                    way(one)
            assert pickle.loads(pickle.dumps(type(one))) is type(one)


def test_statistics_can_be_pickled():
    stats = hwheel.ManualTimer().stats()
    assert pickle.loads(pickle.dumps(stats)) == stats
    assert b"hwheel.timers" not in pickle.dumps(stats)


# --- errors -----------------------------------------------------------------------------------------------------------

BASES = {
    "BatchNotWrittenError": RuntimeError,
    "CheckpointOptionsError": ValueError,
    "DirectoryTakenError": RuntimeError,
    "JavaNotUsableError": RuntimeError,
    "KafkaError": RuntimeError,
    "LogError": ValueError,
    "TimerClosed": RuntimeError,
    "TimerFull": RuntimeError,
}


def importable_modules():
    """Return every module of the two packages that can be imported here."""
    for package in (hwheel, hwheel_core):
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=lambda name: None):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    yield importlib.import_module(found.name)
            except ImportError:
                pass


def test_every_error_is_a_HwheelError_with_a_conventional_name():
    members = [one for module in importable_modules() for one in vars(module).values()]
    classes = {one for one in members if inspect.isclass(one) and issubclass(one, BaseException)}
    errors = {error for error in classes if error.__module__.split(".")[0] in ("hwheel", "hwheel_core")}
    assert hwheel.TimerFull in errors and len(errors) >= 20
    for error in errors:
        assert issubclass(error, hwheel.HwheelError), error
        assert issubclass(error, BASES.get(error.__name__, Exception)), error
        assert error.__name__.endswith(("Error", "Closed", "Full", "Missed", "ShutDown")), error
        assert error.__doc__, error
    if sys.version_info < (3, 15):
        assert BASES.keys() <= {error.__name__ for error in errors}


def test_submodules_load_on_access_and_dir_does_not_load_them():
    """Tools such as freezegun read every name that dir() lists."""
    program = """
import sys, hwheel
for name in dir(hwheel):
    getattr(hwheel, name)
loaded = {name for name in sys.modules if name.startswith(("hwheel.spark", "hwheel.live", "pyspark", "asyncio"))}
assert not loaded, loaded
assert hwheel.asyncio.run.__module__ == "hwheel.asyncio.loop" and hwheel.types.TimerStats
try:
    hwheel.nothing
except AttributeError as error:
    print(error)
"""
    assert output_of("-c", program) == "module 'hwheel' has no attribute 'nothing'\n"
