"""Compiles the core. Everything else about the package is in pyproject.toml.

HWHEEL_DEBUG=1 makes the debug build: invariant check, live counts, assertions (`make test` runs the models on it).
HWHEEL_CFLAGS adds compiler and linker flags: `make sanitize` uses it.
HWHEEL_PLATFORM=posix builds on Linux what other POSIX systems get: `nox -s posix` uses it.
"""

import os
import re
import tomllib
from glob import glob
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

debug = os.environ.get("HWHEEL_DEBUG") == "1"
flags = os.environ.get("HWHEEL_CFLAGS", "").split()


class build_core(build_ext):
    """With the flags of the compiler that was found, which no other place knows."""

    def build_extensions(self):
        if self.compiler.compiler_type == "msvc":
            compile_flags, link_flags = ["/O2", "/std:c11", *flags], []
        else:
            # Without debug information, which Python's own flags ask for: it would be most of the wheel, and name
            # folders of the machine that built it.
            compile_flags = ["-O2", "-pthread", "-g" if debug else "-g0", *flags]
            link_flags = ["-pthread", *flags]
        for extension in self.extensions:
            extension.extra_compile_args = compile_flags
            extension.extra_link_args = link_flags
            # What `hwheel --version` tells.
            extension.define_macros = [*extension.define_macros, ("HW_FLAGS", f'"{" ".join(compile_flags)}"')]
        super().build_extensions()


core = Extension(
    "hwheel_core._core",
    ["hwheel_core/_core.pyx"],
    include_dirs=["hwheel_core"],
    depends=[file for kind in ["p[xy]*", "h"] for file in glob(f"hwheel_core/**/*.{kind}", recursive=True)],
    define_macros=[
        *([("HWHEEL_DEBUG", "1")] if debug else []),
        *([("HWHEEL_POSIX", "1")] if os.environ.get("HWHEEL_PLATFORM") == "posix" else []),
    ],
)


def long_description():
    """The README, with links that lead from wherever it is read to the pages of this version."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    pages = f"{project['urls']['Repository']}/blob/v{project['version']}/"
    return re.sub(r"\]\((?!https?:|#)", f"]({pages}", Path("README.md").read_text(encoding="utf-8"))


setup(
    cmdclass={"build_ext": build_core},
    # Reports of sanitizers are to name lines of ours; a count of lines wants those of C.
    ext_modules=cythonize([core], emit_linenums=bool(flags) and "--coverage" not in flags, show_all_warnings=False),
    long_description=long_description(),
    long_description_content_type="text/markdown",
)
