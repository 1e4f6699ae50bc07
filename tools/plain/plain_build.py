"""Builds the plain half of the core, which holds no Python object, as a program in C."""

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
CORE = HERE.parents[1] / "hwheel_core"
PYTHON_PART = "# With Python objects."  # the comment where the plain half ends, in _core.pyx and _core.pxd
PARTS = ("life", "tasks", "batches", "hand_out", "run")

# The loops that release the lock after a slice of entries release it after a few, so that inputs reach every state in
# between.
SMALL_SLICES = [
    (" SLICE = 2048", " SLICE = 4"),
    (" BATCH_SLICE = 4096", " BATCH_SLICE = 3"),
    (" SURVEY_SLICE = 512", " SURVEY_SLICE = 4"),
]

Change = tuple[str, str]  # a text that one plain file has once, and its replacement


class NoLibFuzzer(Exception):
    """There is no clang with libFuzzer and the sanitizers."""


def plain_files() -> list[str]:
    """Return the files of the plain half, in the order in which _core.pyx includes them."""
    plain = (CORE / "_core.pyx").read_text().partition(PYTHON_PART)[0]
    return re.findall(r'^include "(.+)"', plain, re.MULTILINE)


def write_sources(folder: Path, changes: list[Change], driver: Path = HERE, parts: Sequence[str] = PARTS) -> None:
    """Write a copy of the core with changes, and beside it the driver, whose parts are compiled behind the core."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "core", ignore_errors=True)
    shutil.copytree(CORE, folder / "core", ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__"))
    texts = {file: (CORE / file).read_text() for file in plain_files()}
    for old, new in changes:
        found = [file for file in texts for _ in range(texts[file].count(old))]
        assert len(found) == 1, f"{old!r} is in {found}, not once in the core"
        texts[found[0]] = texts[found[0]].replace(old, new)
    for file, text in texts.items():
        (folder / "core" / file).write_text(text)
    for file in [*driver.glob("*.pxi"), *driver.glob("*.[ch]")]:
        shutil.copy(file, folder)
    includes = "".join(f'include "{file}"\n' for file in [*plain_files(), *(f"{part}.pxi" for part in parts)])
    declarations = (CORE / "_core.pxd").read_text().partition(PYTHON_PART)[0]
    directives = (CORE / "_core.pyx").read_text().partition('"""')[0]
    (folder / "plain_core.pxd").write_text(declarations)
    (folder / "plain_core.pyx").write_text(f"{directives}cimport cython\n\n{includes}")


def run(folder: Path, command: list[str]) -> None:
    """Run a command, silently unless it fails."""
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        error.add_note(error.stderr)
        raise


def translate(folder: Path) -> None:
    """Translate the sources to C."""
    command = [sys.executable, "-m", "cython", "-3", "--line-directives", "-I", "core", "-I", ".", "plain_core.pyx"]
    run(folder, command)


def compile_program(folder: Path, compiler: str, *flags: str, source: str = "main.c") -> Path:
    """Compile the sources. The linker drops the functions that need Python, because nothing calls them."""
    common = ["-w", "-pthread", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
    places = ["-I", "core", "-I", ".", "-isystem", sysconfig.get_path("include")]
    command = [compiler, *common, *flags, *places, source, "-o", "plain", "-lm"]
    run(folder, command)
    return folder / "plain"


def build(folder: Path, changes: list[Change] | None = None) -> Path:
    """Build the program that compares the core with the model."""
    write_sources(folder, [*SMALL_SLICES, *(changes or [])])
    translate(folder)
    return compile_program(folder, "cc", "-O1", "-g", "model.c")


def build_fuzzer(folder: Path) -> Path:
    """Build the program that searches for inputs. Raises NoLibFuzzer."""
    folder.mkdir(parents=True, exist_ok=True)
    sanitizers = "-fsanitize=fuzzer,address,undefined"
    (folder / "nothing.c").write_text("int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }\n")
    attempt = ["clang", sanitizers, "nothing.c", "-o", "nothing"]
    if shutil.which("clang") is None or subprocess.run(attempt, cwd=folder, capture_output=True).returncode:
        raise NoLibFuzzer("this target needs clang with libFuzzer and sanitizers (compiler-rt)")
    write_sources(folder, SMALL_SLICES)
    translate(folder)
    # The model is not instrumented, so that libFuzzer only follows the core.
    run(folder, ["clang", "-O2", "-g", "-c", "model.c", "-o", "model.o"])
    flags = ["-DLIBFUZZER", "-O2", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined", sanitizers]
    # The instrumentation keeps the functions that need Python. Nothing calls them, so they may stay unresolved.
    flags += ["-no-pie", "-Wl,--unresolved-symbols=ignore-in-object-files"]
    # Comparisons are not traced: the bytes are choices that are easily hit, and tracing takes a third of the time.
    return compile_program(folder, "clang", *flags, "-fno-sanitize-coverage=trace-cmp", "model.o")
