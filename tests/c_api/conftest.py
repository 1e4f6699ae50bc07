"""Extension modules of this folder, compiled once a run."""

from pathlib import Path

import pytest

from extensions import compile_extension, import_extension

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """The module of wheels.pyx: `Wheel`, whose entries are numbers and whose callbacks can be told what to do."""
    return import_extension(compile_extension(HERE / "wheels.pyx", tmp_path_factory.mktemp("wheels")))


@pytest.fixture(scope="session")
def hammer(tmp_path_factory):
    """The module of hammer.c, which tries what it can without the GIL."""
    return import_extension(compile_extension(HERE / "hammer.c", tmp_path_factory.mktemp("hammer")))
