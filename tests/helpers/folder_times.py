"""A pytest plugin that reports how long each folder of tests took."""

import os
import platform
import time
from collections import Counter
from pathlib import Path

import pytest

import hwheel_core


class FolderTimes:
    """Prints a line for each folder, and also writes the lines to the file that HWHEEL_TIMES names."""

    def __init__(self, tests):
        self._tests = tests
        self._begin = time.monotonic()
        self._seconds = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        begin = time.monotonic()
        try:
            return (yield)
        finally:
            inside = self._tests in item.path.parents
            folder = f"tests/{item.path.relative_to(self._tests).parts[0]}" if inside else "elsewhere"
            self._seconds[folder] += time.monotonic() - begin

    def pytest_terminal_summary(self, terminalreporter):
        if not self._seconds:
            return
        total_s = time.monotonic() - self._begin
        build = "debug build" if hwheel_core.DEBUG else "release build"
        lines = [f"{total_s:7.1f} s  {build}, Python {platform.python_version()}: total"]
        lines += [f"{seconds:7.1f} s  {folder}" for folder, seconds in self._seconds.most_common()]
        if "HWHEEL_TIMES" in os.environ:
            Path(os.environ["HWHEEL_TIMES"]).write_text("".join(f"{line}\n" for line in lines))
        terminalreporter.section("time per folder")
        for line in lines:
            terminalreporter.line(line)
