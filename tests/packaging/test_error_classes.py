"""Whoever catches hwheel.HwheelError catches whatever error of ours there is."""

import importlib
import pkgutil
import warnings

import hwheel
import hwheel_core

# What an error was before it had this base, it still is: programs catch it as that.
KEPT = {
    "BatchNotWrittenError": RuntimeError,
    "CheckpointOptionsError": ValueError,
    "DirectoryTakenError": RuntimeError,
    "JavaNotUsableError": RuntimeError,
    "KafkaError": RuntimeError,
    "LogError": ValueError,
    "TimerClosed": RuntimeError,
    "TimerFull": RuntimeError,
}


def modules():
    """All modules of ours that can be imported here: some need an extra that may be missing."""
    for package in (hwheel, hwheel_core):
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=lambda name: None):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    yield importlib.import_module(found.name)
            except ImportError:
                pass


def our_errors():
    found = {
        thing
        for module in modules()
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, BaseException)
    }
    return {error for error in found if error.__module__.split(".")[0] in ("hwheel", "hwheel_core")}


def test_every_error_of_ours_is_a_HwheelError():
    errors = our_errors()
    assert hwheel.TimerFull in errors and len(errors) >= 20
    assert {error for error in errors if not issubclass(error, hwheel.HwheelError)} == set()


def test_what_was_a_ValueError_or_a_RuntimeError_still_is():
    for error in our_errors():
        assert issubclass(error, KEPT.get(error.__name__, Exception)), error


def test_an_error_says_what_it_is_by_its_name():
    for error in our_errors():
        assert error.__name__.endswith(("Error", "Closed", "Full", "Missed", "ShutDown")), error
        assert error.__doc__
