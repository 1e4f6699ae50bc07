"""Programs of the plain half of the core, which holds no Python object, with other code behind:
threads under ThreadSanitizer, or what a fuzzer drives."""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

CORE = Path(__file__).parents[2] / "hwheel_core"
PYTHON_PART = "# With Python objects."  # divides _core.pyx and _core.pxd


def rooms_of(text):
    """The files of the plain half, in order."""
    return re.findall(r'^include "(.+)"', text.partition(PYTHON_PART)[0], re.MULTILINE)


def copy_core(folder):
    """What is built, to be changed before it is."""
    shutil.copytree(CORE, folder / "core", ignore=shutil.ignore_patterns("*.so", "__pycache__"))


def change(folder, file, old, new):
    """Changes a place of the copy, which has to be there once."""
    path = folder / "core" / file
    text = path.read_text()
    assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
    path.write_text(text.replace(old, new))


def translate(folder, name, files):
    """The plain half with the .pxi of `files` behind it, as the module `name` of Cython's; all the files come along."""
    declared = (CORE / "_core.pxd").read_text().partition(PYTHON_PART)[0]
    text = (CORE / "_core.pyx").read_text()
    directives = text.partition('"""')[0]
    for file in files:
        shutil.copy(file, folder)
    behind = [file.name for file in files if file.suffix == ".pxi"]
    includes = "".join(f'include "{file}"\n' for file in [*rooms_of(text), *behind])
    (folder / f"{name}.pxd").write_text(declared)
    (folder / f"{name}.pyx").write_text(f"{directives}cimport cython\n\n{includes}")
    cython = [sys.executable, "-m", "cython", "-3", "--line-directives", "-I", "core", "-I", ".", f"{name}.pyx"]
    subprocess.run(cython, cwd=folder, check=True)


def compile_program(folder, program, sources, flags, compiler="cc"):
    """The program. What is for Python alone is never reached, and the linker leaves it out with all that it wants."""
    alone = ["-w", "-pthread", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
    places = ["-I", "core", "-I", ".", "-isystem", sysconfig.get_path("include")]
    subprocess.run([compiler, *alone, *flags, *places, *sources, "-o", program, "-lm"], cwd=folder, check=True)
    return folder / program
