"""Search with libFuzzer for inputs on which the library and a simple model disagree.

A target reads bytes as a list of operations, runs them, and compares the results with its model. Failing inputs are
written to build/fuzz; `--replay FILE TARGET` runs one of them again without libFuzzer. The target `plain` is the half
of the core that holds no Python object, as a C program (tools/plain). It runs about a hundred times as many operations
per second. It needs clang; the other targets need Atheris.
"""

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "plain"))
import plain_build

HERE = Path(__file__).parent
PLAIN = "plain"
TARGETS = sorted([PLAIN, *(path.stem for path in (HERE / "targets").glob("*.py"))])
OUT = HERE.parents[1] / "build" / "fuzz"


def main() -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"any of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--seconds", type=int, default=60, help="time for all targets together (default: 60)")
    parser.add_argument("--runs", type=int, default=-1, help="inputs of each target, if they take less time than that")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run this input only")
    options = parser.parse_args()
    targets = options.targets or TARGETS
    if unknown := {*targets} - {*TARGETS}:
        parser.error(f"unknown target {min(unknown)}, choose from {', '.join(TARGETS)}")
    if options.replay is not None:
        if len(options.targets) != 1:
            parser.error("--replay needs exactly one target")
        return replay(targets[0], options.replay)
    limits = [f"-max_total_time={max(1, options.seconds // len(targets))}", f"-runs={options.runs}"]
    return max([search(name, limits) for name in targets])


def replay(name: str, file: Path) -> int:
    """Run one input. Return the exit status, which is not 0 for an input that fails."""
    if name != PLAIN:
        importlib.import_module(f"targets.{name}").run(file.read_bytes())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([plain_build.build(Path(folder)), "inputs", "0", file], check=False).returncode


def search(name: str, limits: list[str]) -> int:
    """Search with one target, starting from the inputs of earlier runs. Return the exit status of libFuzzer."""
    inputs = OUT / name
    inputs.mkdir(parents=True, exist_ok=True)
    try:
        command, environment = plain_engine() if name == PLAIN else python_engine(name)
    except plain_build.NoLibFuzzer as error:
        print(f"{name}: skipped, {error}")
        return 0
    command += ["-timeout=60", "-rss_limit_mb=4096", f"-artifact_prefix={OUT}/{name}-", *limits, str(inputs)]
    with (OUT / f"{name}.log").open("w+") as log:
        status = subprocess.run(command, env=os.environ | environment, stdout=log, stderr=log, check=False).returncode
        log.seek(0)
        last = log.read().splitlines()[-1]
    print(f"{name}: {last}" if status == 0 else f"{name}: FAILED, see {OUT / name}.log", flush=True)
    return int(status != 0)


def plain_engine() -> tuple[list[str], dict[str, str]]:
    """Return the command of the plain half and its environment variables."""
    # Without -entropic=0, choosing the next input takes as long as running it.
    command = [str(plain_build.build_fuzzer(OUT / "built")), "-max_len=2048", "-len_control=0", "-entropic=0"]
    return command, {"UBSAN_OPTIONS": "print_stacktrace=1"}


def python_engine(name: str) -> tuple[list[str], dict[str, str]]:
    """Return the command of a target in Python and its environment variables."""
    import atheris

    # The core reports its coverage to libFuzzer, so libFuzzer must be loaded first.
    library = Path(atheris.path()) / "ubsan_with_fuzzer.so"
    command = [sys.executable, "-P", str(HERE / "engine.py"), name, "-max_len=512"]
    return command, {"LD_PRELOAD": str(library), "UBSAN_OPTIONS": "halt_on_error=1"}


if __name__ == "__main__":
    sys.exit(main())
