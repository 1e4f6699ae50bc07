"""Extension modules for the tests of this folder, compiled once."""

from pathlib import Path

import pytest

from extensions import compile_extension, import_extension

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """The module of wheels.pyx. Entries of its `Wheel` are numbers, and callbacks call a Python function."""
    return import_extension(compile_extension(HERE / "wheels.pyx", tmp_path_factory.mktemp("wheels")))


@pytest.fixture(scope="session")
def hammer(tmp_path_factory):
    """The module of hammer.c, which runs random operations without the GIL."""
    return import_extension(compile_extension(HERE / "hammer.c", tmp_path_factory.mktemp("hammer")))
