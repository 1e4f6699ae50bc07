"""cachetools and its own tests, from its sdist, which the nox environments have in `sdists`."""

import functools
import importlib
import importlib.util
import sys
import tarfile
import tempfile
import types
from pathlib import Path
from unittest import mock

import pytest

import hwheel.cachetools

OURS = ("CacheInfo", "TLRUCache", "TTLCache", "cached", "cachedmethod", "keys")


@functools.cache
def unpacked():
    """Return the unpacked sdist, or skip the calling module."""
    sdist = next(Path(sys.prefix, "sdists").glob("cachetools-*.tar.gz"), None)
    if sdist is None:
        pytest.skip("the sdist of cachetools is not in the environment's `sdists`", allow_module_level=True)
    folder = tempfile.TemporaryDirectory(prefix="cachetools-")
    unpacked.folder = folder  # removed at exit
    with tarfile.open(sdist) as archive:
        archive.extractall(folder.name, filter="data")
    return next(Path(folder.name).iterdir())


@functools.cache
def cachetools():
    """Return cachetools itself."""
    with mock.patch.object(sys, "path", [str(unpacked() / "src"), *sys.path]):
        return importlib.import_module("cachetools")


@functools.cache
def test_modules(*names):
    """Return modules of cachetools' tests, imported with hwheel's names in cachetools."""
    swapped = types.ModuleType("cachetools")
    swapped.__dict__.update(vars(cachetools()) | {name: getattr(hwheel.cachetools, name) for name in OURS})
    tests = unpacked() / "tests"
    spec = importlib.util.spec_from_file_location(
        "tests_of_cachetools", tests / "__init__.py", submodule_search_locations=[str(tests)]
    )
    package = importlib.util.module_from_spec(spec)
    replaced = {"tests_of_cachetools": package, "cachetools": swapped, "cachetools.keys": hwheel.cachetools.keys}
    with mock.patch.dict(sys.modules, replaced):
        spec.loader.exec_module(package)
        modules = [importlib.import_module(f"tests_of_cachetools.{name}") for name in names]
    sys.modules.update({module.__name__: module for module in [package, *modules]})  # for pickle
    return modules
