"""Builds the target `plain`: the half of the core that holds no Python object, with a fuzzer's bytes behind it.

With libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer it needs clang; without them any C compiler, and then
the program tries the inputs that it is given, also with a fault planted into the core.
"""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[2] / "tests" / "helpers"))
import plain_half  # noqa: E402

FILES = [HERE / f"{name}.pxi" for name in ("life", "tasks", "batches", "hand_out", "run")]
FILES += [HERE / name for name in ("plain.c", "plain.h", "model.c", "model.h")]

# So few entries at a time that the loops which give the lock up do it in the middle of what a fuzzer thinks of.
SLICES = [("wheel/wheel.pxi", "SLICE = 2048", "SLICE = 4"), ("batch/bulk.pxi", "BATCH_SLICE = 4096", "BATCH_SLICE = 3")]
SLICES += [("timer/survey.pxi", "SURVEY_SLICE = 512", "SURVEY_SLICE = 4")]

SANITIZERS = "fuzzer,address,undefined"


class NoLibFuzzer(Exception):
    """There is no clang that brings libFuzzer and the sanitizers."""


def build(folder: Path, planted: list[tuple[str, str, str]] | None = None) -> Path:
    """The program that tries inputs; planted: (file of the core, what stands there, what shall stand there)."""
    write_sources(folder, planted or [])
    return plain_half.compile_program(folder, "plain", ["plain.c", "model.c"], ["-O1", "-g", "-DALONE"])


def build_fuzzer(folder: Path) -> Path:
    """The program that looks for inputs. Raises NoLibFuzzer."""
    flags = ["-O2", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined"]
    missing = "it needs clang with its libFuzzer and sanitizers (compiler-rt)"
    if shutil.which("clang") is None:
        raise NoLibFuzzer(missing)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nothing.c").write_text("int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }\n")
    tried = ["clang", f"-fsanitize={SANITIZERS}", "nothing.c", "-o", "nothing"]
    if subprocess.run(tried, cwd=folder, capture_output=True, check=False).returncode:
        raise NoLibFuzzer(missing)
    write_sources(folder, [])
    subprocess.run(["clang", "-O2", "-g", "-c", "model.c", "-o", "model.o"], cwd=folder, check=True)
    # What libFuzzer counts keeps what is for Python alone, too, which nobody calls: what that wants may be missing.
    flags += [f"-fsanitize={SANITIZERS}", "-no-pie", "-Wl,--unresolved-symbols=ignore-in-object-files"]
    # No look at what is compared with what: the bytes are choices, of which each is as easily met, and it takes a third
    # of the time.
    flags.append("-fno-sanitize-coverage=trace-cmp")
    return plain_half.compile_program(folder, "plain", ["plain.c", "model.o"], flags, "clang")


def write_sources(folder: Path, changes: list[tuple[str, str, str]]) -> None:
    shutil.rmtree(folder / "core", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    plain_half.copy_core(folder)
    for file, old, new in [*SLICES, *changes]:
        plain_half.change(folder, file, old, new)
    plain_half.translate(folder, "plain_core", FILES)
