"""What the searches for whole kinds of broken promises share."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.append(str(HERE))      # for the helpers beside this file: the suite's import mode leaves it out


@pytest.fixture
def run_with_helpers(run_script):
    """run_script for a text that imports the helpers beside this file."""
    return lambda text: run_script(f"sys.path.insert(0, {str(HERE)!r})\n{text}")
