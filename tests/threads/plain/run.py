"""Builds the plain half of the core, wheel/ and timer/, with threads of C over it, and runs that under ThreadSanitizer.

usage: run.py [--seconds S] [--seed N] [--broken FUNCTION] [--without-sanitizer]

What it says at the end is races.c's; where ThreadSanitizer found something, its reports, and the status is not 0.
--broken builds a core in which a function takes no lock: there something has to be found.
"""

import argparse
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CORE = HERE.parents[2] / "hwheel_core"

# {function: its file}: a core can be built in which one of these takes no lock.
BROKEN = {
    "registry_leave": "timer/lock.pxi",
    "batch_take": "timer/bulk.pxi",
    "timer_grow": "timer/timer.pxi",
    "timer_stop": "timer/timer.pxi",
}
LOCKING = re.compile(r"^( +)(?:lock_(?:wait|release|yield)|hw_mutex_(?:lock|unlock))\(.*$", re.MULTILINE)


def rooms_of(text):
    """The files of the plain half, in order."""
    return re.findall(r'^include "((?:wheel|timer)/.+)"', text, re.MULTILINE)


def write_sources(folder, broken):
    """The plain half with races.pxi behind it, as a module of Cython's; and what it declares."""
    shutil.copytree(CORE, folder / "core")
    if broken:
        text = (folder / "core" / BROKEN[broken]).read_text()
        begin = text.index(f" {broken}(")
        function, between, rest = text[begin:].partition("\n\n\n")
        function, locks = LOCKING.subn(r"\1pass", function)
        assert locks >= 2
        (folder / "core" / BROKEN[broken]).write_text(text[:begin] + function + between + rest)
    declared = (CORE / "_core.pxd").read_text().partition('include "python/structs.pxd"')[0]
    includes = "".join(f'include "{file}"\n' for file in rooms_of((CORE / "_core.pyx").read_text()))
    directives = (CORE / "_core.pyx").read_text().partition('"""')[0]
    for file in ("races.pxi", "races.h", "races.c"):
        shutil.copy(HERE / file, folder)
    (folder / "races_core.pxd").write_text(declared)
    (folder / "races_core.pyx").write_text(f'{directives}cimport cython\n\n{includes}include "races.pxi"\n')


def build(folder, broken=None, sanitized=True):
    """The program."""
    write_sources(folder, broken)
    cython = [sys.executable, "-m", "cython", "-3", "--line-directives", "-I", "core", "-I", ".", "races_core.pyx"]
    subprocess.run(cython, cwd=folder, check=True)
    flags = ["-fsanitize=thread"] if sanitized else []
    # What is for Python alone is never reached: the linker leaves it out, and with it the need for Python.
    compiler = [
        "cc",
        *flags,
        "-O1",
        "-g",
        "-pthread",
        "-w",
        "-ffunction-sections",
        "-fdata-sections",
        "-Wl,--gc-sections",
    ]
    compiler += ["-I", "core", "-I", ".", "-isystem", sysconfig.get_path("include"), "races.c", "-o", "races", "-lm"]
    subprocess.run(compiler, cwd=folder, check=True)
    return folder / "races"


def command(program, seconds, seed):
    """ThreadSanitizer wants its shadow where some kernels put the program: addresses are not shuffled, then."""
    alone = ["setarch", platform.machine(), "-R"] if shutil.which("setarch") else []
    return [*alone, str(program), str(seconds), str(seed)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broken", choices=BROKEN)
    parser.add_argument("--without-sanitizer", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder), arguments.broken, not arguments.without_sanitizer)
        return subprocess.run(command(program, arguments.seconds, arguments.seed), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
