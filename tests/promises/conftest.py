"""What the searches for whole kinds of broken promises share."""

import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
sys.path.append(HERE)  # the suite's import mode leaves it out


@pytest.fixture
def run_with_helpers(run_script):
    """run_script for a text that imports what is beside this file."""
    return lambda text: run_script(f"sys.path[:0] = {[HERE]!r}\n{text}")
