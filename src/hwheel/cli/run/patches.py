"""The names that ``hwheel run`` replaces, also in the children of multiprocessing."""

import asyncio
import contextlib
import importlib
import multiprocessing
import sys
import warnings
from multiprocessing import spawn
from typing import Any

import hwheel.asyncio
import hwheel.sched
from hwheel import Timer
from hwheel.asyncio import wheel_loop

PARTS = ("asyncio", "threading", "sched")
LOOP_CLASSES = {"uvloop": "Loop", "zuvloop": "EventLoop"}
LOOPS = ("asyncio", *LOOP_CLASSES)
TIMEOUTS = ("timeout", "timeout_at", "Timeout", "wait_for")


def patch(loop: str, parts: tuple[str, ...]) -> None:
    """Replace the timers of this process and of the children that multiprocessing spawns.

    Args:
        loop: The event loop of programs that choose none: one of LOOPS.
        parts: The modules to patch: some of PARTS.

    Raises:
        ImportError: The loop is not installed. Nothing has changed.
    """
    if "asyncio" in parts:
        patch_loops(loop)
        for name in TIMEOUTS:
            replace("asyncio", name, getattr(hwheel.asyncio, name))
    if "threading" in parts:
        replace("threading", "Timer", Timer)
    if "sched" in parts:
        replace("sched", "scheduler", hwheel.sched.scheduler)
    patch_children(loop, parts)


def patch_loops(default: str) -> None:
    """Put the timers of all loop classes on the wheel, and set the class of loops that asyncio creates."""
    classes: dict[str, Any] = {}
    for package, name in LOOP_CLASSES.items():
        # A program may choose a loop that is not the default.
        with contextlib.nullcontext() if package == default else contextlib.suppress(ImportError):
            classes[package] = wheel_loop(getattr(importlib.import_module(package), name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # asyncio's policies are deprecated from 3.14 on
        policy: Any = asyncio.DefaultEventLoopPolicy
    classes["asyncio"] = wheel_loop(policy._loop_factory)
    policy._loop_factory = classes[default]
    for package in classes.keys() - {"asyncio"}:
        replace_loop(package, LOOP_CLASSES[package])
    for name in ("SelectorEventLoop", "ProactorEventLoop"):
        if hasattr(asyncio, name):
            replace_loop("asyncio", name)
    if hasattr(asyncio, "EventLoop"):
        replace("asyncio", "EventLoop", classes[default])


def replace_loop(package: str, name: str) -> None:
    """Replace a loop class. Its module and qualified name stay: libraries recognize it by them, and pickle finds it."""
    old = getattr(sys.modules[package], name)
    new = wheel_loop(old)
    replace(package, name, new)
    new.__module__, new.__qualname__ = old.__module__, old.__qualname__
    setattr(sys.modules[old.__module__], old.__qualname__, new)


def replace(package: str, name: str, new: object) -> None:
    """Replace a name in all modules of a package that have it."""
    old = getattr(sys.modules[package], name)
    for module_name, module in [*sys.modules.items()]:
        if module_name.partition(".")[0] == package and vars(module).get(name) is old:
            setattr(module, name, new)


class PatchOnLoad:
    """An object whose unpickling calls ``patch()``."""

    def __init__(self, loop: str, parts: tuple[str, ...]) -> None:
        self.arguments = loop, parts

    def __reduce__(self) -> tuple[object, ...]:
        return patch, self.arguments


def patch_children(loop: str, parts: tuple[str, ...]) -> None:
    """Patch each child of multiprocessing's `spawn` and `forkserver` before it imports the program."""
    get_preparation_data = spawn.get_preparation_data

    def get_preparation_data_with_patch(name: str) -> dict[str, Any]:
        return {**get_preparation_data(name), "hwheel": PatchOnLoad(loop, parts)}

    spawn.get_preparation_data = get_preparation_data_with_patch
    if "forkserver" in multiprocessing.get_all_start_methods():
        # From Python 3.14 on, the server imports the program, but the server is not patched.
        multiprocessing.set_forkserver_preload([])
