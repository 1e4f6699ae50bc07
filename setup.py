"""Compiles the core. Everything else about the package is in pyproject.toml.

HWHEEL_DEBUG=1 makes the debug build: invariant check, live counts, assertions (`make test` runs the models on it).
HWHEEL_CFLAGS adds compiler and linker flags: `make sanitize` uses it.
"""

import os
import re
import tomllib
from glob import glob
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

debug = os.environ.get("HWHEEL_DEBUG") == "1"
flags = os.environ.get("HWHEEL_CFLAGS", "").split()
# Without debug information, which Python's own flags ask for: it would be most of the wheel, and name folders of the
# machine that built it.
compile_flags = ["-O2", "-pthread", *(["-g"] if debug else ["-g0"]), *flags]
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


def long_description():
    """The README, with links that lead from wherever it is read to the pages of this version."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    pages = f"{project['urls']['Repository']}/blob/v{project['version']}/"
    return re.sub(r"\]\((?!https?:|#)", f"]({pages}", Path("README.md").read_text(encoding="utf-8"))


setup(
    ext_modules=cythonize([core], emit_linenums=bool(flags), show_all_warnings=False),
    long_description=long_description(),
    long_description_content_type="text/markdown",
)
