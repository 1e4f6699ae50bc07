"""What one system has and another has not."""

import importlib
import os
import re

import pytest

from hwheel import SystemTimer

PARTS = r"\b(os|signal|time)\.([A-Za-z_]\w*)"


def skip_unless_there(program):
    """Skips the test if its program wants something of the standard library that this system lacks: os.fork on Windows,
    say."""
    for module, name in {*re.findall(PARTS, program), *([("os", "fork")] if "in_child(" in program else [])}:
        if not hasattr(importlib.import_module(module), name):
            pytest.skip(f"there is no {module}.{name} here")


def skip_unless_clock(clock):
    """Skips the test if a SystemTimer has no such clock here, and says so."""
    try:
        SystemTimer(clock=clock)
    except ValueError as error:
        assert clock == "boottime" and "on this platform" in str(error)
        pytest.skip(str(error))


def not_under_address_sanitizer(reason):
    """A mark of what `make sanitize` skips, be it with the library of GCC or of clang."""
    return pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason=reason)
