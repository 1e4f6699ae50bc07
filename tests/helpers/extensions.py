"""Extension modules that tests compile as a user would: with setuptools, and with Cython for a .pyx file."""

import importlib.util
import shutil
import sys
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from hwheel.c_api import get_include
from programs import run_python

BUILD = """
import sys
from setuptools import Extension, setup
name, source, *include_dirs = sys.argv[1:]
sys.argv = ["setup.py", "-q", "build_ext", "--inplace"]
extensions = [Extension(name, [source], include_dirs=include_dirs)]
if source.endswith(".pyx"):
    from Cython.Build import cythonize
    extensions = cythonize(extensions, quiet=True)
setup(name=name, ext_modules=extensions)
"""


def compile_extension(source: Path, into: Path, include: str | None = None) -> Path:
    """Compile a .c or .pyx file in the folder ``into`` and return the path of the module. Skip without a compiler."""
    skip_unless_compiler(source)
    shutil.copy(source, into)
    ended = run_python("-c", BUILD, source.stem, source.name, include or get_include(), cwd=into, patience_s=300)
    assert ended.status == 0, ended.err
    return into / f"{source.stem}{EXTENSION_SUFFIXES[0]}"


def import_extension(module: Path):
    """Import an extension module from its file."""
    spec = importlib.util.spec_from_file_location(module.name.split(".")[0], module)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def skip_unless_compiler(source: Path):
    pytest.importorskip("setuptools")
    if source.suffix == ".pyx":
        pytest.importorskip("Cython")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        pytest.skip("needs Python's headers")
    command = (sysconfig.get_config_var("CC") or "cl").split()[0]
    if sys.platform != "win32" and not shutil.which(command):
        pytest.skip(f"needs a C compiler: {command}")
