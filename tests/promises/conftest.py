"""What the searches for whole kinds of broken promises share."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HELPERS = [str(HERE), str(HERE.parent / "helpers")]
sys.path.extend(HELPERS)        # the suite's import mode leaves them out


@pytest.fixture
def run_with_helpers(run_script):
    """run_script for a text that imports the helpers, those beside this file and the whole suite's."""
    return lambda text: run_script(f"sys.path[:0] = {HELPERS!r}\n{text}")
