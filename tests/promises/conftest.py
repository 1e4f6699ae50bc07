"""Fixtures for the fault searches. Each search runs its cases as programs that import the modules of this folder."""

import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
sys.path.append(HERE)  # the suite's import mode does not add it


@pytest.fixture
def run_with_helpers(run_script):
    """Return run_script for a text that imports modules of this folder."""
    return lambda text: run_script(f"sys.path[:0] = {[HERE]!r}\n{text}")


@pytest.fixture
def find_faults(run_with_helpers):
    """Return find_faults(module, function, *arguments), which calls the function in a program that prints faults."""
    return lambda module, function, *arguments: run_with_helpers(
        f"import {module}\n{module}.{function}(*{arguments!r})\n"
    )
