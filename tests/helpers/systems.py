"""Differences between systems and builds of Python: skips, marks, and garbage collection."""

import gc
import importlib
import os
import re
import sys
import sysconfig

import pytest

from hwheel import SystemTimer

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
# Free-threaded CPython 3.13 never frees classes and functions once the process has had a second thread.
CLASSES_ARE_IMMORTAL = FREE_THREADED and sys.version_info < (3, 14)
POSIX_NAMES = r"\b(os|signal|time)\.([A-Za-z_]\w*)"


def collect_if_free_threaded():
    """Make sure that unreferenced objects are freed before a test checks for it.

    With a GIL they are freed at once. Without one, an object that another thread released is freed later: when the
    thread that created it runs Python code, or by a collection.
    """
    if FREE_THREADED:
        gc.collect()


def skip_unless_supported(program):
    """Skip the test if its program uses a part of the standard library that this system lacks, such as os.fork."""
    for module, name in {*re.findall(POSIX_NAMES, program), *([("os", "fork")] if "in_child(" in program else [])}:
        if not hasattr(importlib.import_module(module), name):
            pytest.skip(f"this system has no {module}.{name}")


def skip_unless_clock(clock):
    """Skip the test if this system lacks the clock."""
    try:
        SystemTimer(clock=clock)
    except ValueError as error:
        assert clock == "boottime" and "on this platform" in str(error)
        pytest.skip(str(error))


def skip_under_address_sanitizer(reason):
    """Return a mark that skips the test under AddressSanitizer."""
    return pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason=reason)
