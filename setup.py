"""Compiles the core. Everything else about the package is in pyproject.toml.

HWHEEL_DEBUG=1 makes the debug build: invariant check, live counts, assertions (`make test` runs the models on it).
HWHEEL_CFLAGS adds compiler and linker flags: `make sanitize` uses it.
"""

import os
from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup

debug = os.environ.get("HWHEEL_DEBUG") == "1"
flags = os.environ.get("HWHEEL_CFLAGS", "").split()
compile_flags = ["-O2", "-pthread", *flags]
# What `hwheel --version` tells.
macros = [("HW_FLAGS", f'"{" ".join(compile_flags)}"'), *([("HWHEEL_DEBUG", "1")] if debug else [])]

core = Extension(
    "hwheel_core._core",
    ["hwheel_core/_core.pyx"],
    include_dirs=["hwheel_core"],
    depends=[file for kind in ["p[xy]*", "h"] for file in glob(f"hwheel_core/**/*.{kind}", recursive=True)],
    define_macros=macros,
    extra_compile_args=compile_flags,
    extra_link_args=["-pthread", *flags],
)

setup(ext_modules=cythonize([core], emit_linenums=bool(flags), show_all_warnings=False))
