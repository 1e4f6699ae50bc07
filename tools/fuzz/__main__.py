"""Looks for inputs that break a promise, with libFuzzer, which sees what each input reaches in the compiled core.

Each target reads bytes as a list of operations, carries them out, and compares with a model that is too plain to be
wrong. What is found is written to build/fuzz; `fuzz --replay FILE TARGET` tries it again, without libFuzzer.

The target `plain` is the half of the core that holds no Python object, in C with nothing of Python around it: it makes
some hundred times as many operations a second. It wants clang, and the others Atheris.
"""

import argparse
import array
import functools
import importlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
from corpus import keep, kept
from plain import build

PLAIN = "plain"
TARGETS = sorted([PLAIN, *(path.stem for path in (Path(__file__).parent / "targets").glob("*.py"))])
OUT = Path(__file__).parents[2] / "build" / "fuzz"
MOST_BYTES = 512
MOST_BYTES_PLAIN = 2048


def main() -> int:
    """The command. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"which: {', '.join(TARGETS)}; by itself all")
    parser.add_argument("--seconds", type=int, default=60, help="how long, for all targets together (60)")
    parser.add_argument("--operations", type=float, help="how many at least, of each target, however long that takes")
    parser.add_argument("--keep", action="store_true", help="put what reaches something new into tools/fuzz/corpus")
    parser.add_argument("--replay", type=Path, help="run this input, and nothing else")
    options = parser.parse_args()
    targets = options.targets or TARGETS
    unknown = [name for name in targets if name not in TARGETS]
    if unknown:
        parser.error(f"there is no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    if options.replay is not None:
        if len(options.targets) != 1:
            parser.error("--replay takes one target")
        return replay(targets[0], options.replay)
    console = Console(soft_wrap=True)
    failed = False
    for name in targets:
        failed |= not fuzz(name, options.seconds / len(targets), options.operations, console)
        if options.keep and not failed:
            console.print(f"{name}: keeps {keep_merged(name)} inputs")
    return 1 if failed else 0


def replay(name: str, file: Path) -> int:
    """One input. Returns the exit status, which is not 0 where it breaks a promise."""
    if name != PLAIN:
        importlib.import_module(f"targets.{name}").run(file.read_bytes())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([build.build(Path(folder)), "0", file], check=False).returncode


def fuzz(name: str, seconds: float, operations: float | None, console: Console) -> bool:
    """One target. Whether nothing was found."""
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    if name == PLAIN:
        try:
            plain_program()
        except build.NoLibFuzzer as error:
            console.print(f"{name}: not tried: {error}")
            return True
    for number, data in enumerate(kept(name)):
        (folder / f"kept-{number}").write_bytes(data)
    begin = time.monotonic()
    inputs = done = 0
    status = 0
    with console.status(name) as shown:
        while not status:
            left = seconds - (time.monotonic() - begin)
            if left < 1 if operations is None else done >= operations:
                break
            counts = OUT / f"{name}.counts"
            counts.write_bytes(bytes(16))
            arguments = [f"-max_total_time={max(1, int(left)) if operations is None else 30}", str(folder)]
            with (OUT / f"{name}.log").open("w") as log:
                process = subprocess.Popen(
                    command(name, counts, arguments), env=environment(name, counts), stdout=log, stderr=log
                )
                while process.poll() is None:
                    time.sleep(0.2)
                    now_inputs, now_done = array.array("q", counts.read_bytes())
                    shown.update(f"{name}: {inputs + now_inputs:,} inputs, {done + now_done:,} operations")
            status = process.returncode
            now_inputs, now_done = array.array("q", counts.read_bytes())
            inputs += now_inputs
            done += now_done
    took = time.monotonic() - begin
    verdict = "nothing found" if not status else f"FAILED, see {OUT / name}.log"
    console.print(f"{name}: {inputs:,} inputs, {done:,} operations, {took:.0f} s: {verdict}")
    return not status


def keep_merged(name: str) -> int:
    """Of all that the folder of a target holds, what is needed to reach as much, into the archive."""
    merged = OUT / f"{name}-merged"
    merged.mkdir(exist_ok=True)
    for old in merged.iterdir():
        old.unlink()
    counts = OUT / f"{name}.counts"
    subprocess.run(
        command(name, counts, ["-merge=1", str(merged), str(OUT / name)]),
        env=environment(name, counts),
        check=True,
        capture_output=True,
    )
    return keep(name, [file.read_bytes() for file in merged.iterdir()])


@functools.cache
def plain_program() -> Path:
    """The target `plain`, built anew once in each run."""
    return build.build_fuzzer(OUT / "plain-built")


def command(name: str, counts: Path, arguments: list[str]) -> list[str]:
    common = ["-timeout=60", "-rss_limit_mb=4096", f"-artifact_prefix={OUT}/{name}-", *arguments]
    if name == PLAIN:
        # Without the schedule by rare features, which takes as long to find the next input as that one takes.
        return [str(plain_program()), f"-max_len={MOST_BYTES_PLAIN}", "-len_control=0", "-entropic=0", *common]
    engine = Path(__file__).with_name("engine.py")
    return [sys.executable, "-P", str(engine), name, str(counts), f"-max_len={MOST_BYTES}", *common]


def environment(name: str, counts: Path) -> dict[str, str]:
    if name == PLAIN:
        return os.environ | {"FUZZ_COUNTS": str(counts), "UBSAN_OPTIONS": "print_stacktrace=1"}
    import atheris

    # libFuzzer comes before the interpreter, because the compiled core is built to report to it.
    library = Path(atheris.path()) / "ubsan_with_fuzzer.so"
    return os.environ | {"LD_PRELOAD": str(library), "UBSAN_OPTIONS": "halt_on_error=1"}


if __name__ == "__main__":
    sys.exit(main())
