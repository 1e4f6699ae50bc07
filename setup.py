"""Compiles the core. pyproject.toml has everything else about the package. noxfile.py uses these variables:

HWHEEL_DEBUG=1: the debug build, with invariant checks, counts of live objects, and assertions.
HWHEEL_CFLAGS: additional compiler and linker flags.
HWHEEL_PLATFORM=posix: the sources for other POSIX systems, on Linux.
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
    """Sets the flags when the compiler is known."""

    def build_extensions(self):
        if self.compiler.compiler_type == "msvc":
            compile_flags, link_flags = ["/O2", "/std:c11", *flags], []
        else:
            # -g0 removes the debug information that Python's own flags ask for. It would be most of the wheel, with
            # paths of the build machine.
            compile_flags = ["-O2", "-pthread", "-g" if debug else "-g0", *flags]
            link_flags = ["-pthread", *flags]
        for extension in self.extensions:
            extension.extra_compile_args = compile_flags
            extension.extra_link_args = link_flags
            # `hwheel --version` prints the flags.
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
    """Return the README with absolute links to the pages and pictures of this version."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    repository, tag = project["urls"]["Repository"], f"v{project['version']}"
    text = Path("README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:)", rf"\1{repository}/raw/{tag}/", text)
    return re.sub(r"\]\((?!https?:|#)", f"]({repository}/blob/{tag}/", text)


setup(
    cmdclass={"build_ext": build_core},
    # With line directives, sanitizers and gcov report lines of the Cython sources.
    ext_modules=cythonize([core], emit_linenums=bool(flags), show_all_warnings=False),
    long_description=long_description(),
    long_description_content_type="text/markdown",
)
