"""The C API beside two wheels in C and C++, measured in turns in one run; ns an operation, without the GIL.

    git clone https://github.com/jsnell/ratas build/peers/ratas
    git clone https://github.com/wahern/timeout build/peers/timeout
    .venv/bin/python bench/c_api/run.py

A peer whose sources are not there is left out by name. All of them must call the same timers, and none early. Needs a C
compiler, for ratas one of C++, setuptools and Python's headers.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from statistics import median
from typing import Any

from hwheel.c_api import get_include

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build"
STEPS = ("add", "add + cancel", "cancel, at random", "move, at random", "expiry with callback")
SETUP = """
import sys
from setuptools import Extension, setup
name, source, *include_dirs = sys.argv[1:]
sys.argv = ["setup.py", "-q", "build_ext", "--build-lib", ".", "--build-temp", "objects"]
setup(name=name, ext_modules=[Extension(name, [source], include_dirs=include_dirs, extra_compile_args=["-O2", "-w"])])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timers", type=int, default=1_000_000)
    parser.add_argument("--reach", type=int, default=100_000, help="the longest delay, in ticks")
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ratas", type=Path, default=BUILD / "peers/ratas/src", help="the folder of timer-wheel.h")
    parser.add_argument("--timeout", type=Path, default=BUILD / "peers/timeout", help="the folder of timeout.c")
    parser.add_argument("--out", type=Path, default=BUILD / "bench/c_api", help="where the modules are compiled")
    options = parser.parse_args()
    engines = {"hwheel": compiled("life_hwheel.c", options.out, get_include())}
    if (options.ratas / "timer-wheel.h").exists():
        engines["ratas"] = compiled("life_ratas.cpp", options.out, options.ratas)
    if (options.timeout / "timeout.c").exists():
        engines["timeout.c"] = compiled("life_timeout.c", options.out, options.timeout)
    rounds: dict[str, list[tuple[float, ...]]] = {name: [] for name in engines}
    results = set()
    for _ in range(options.rounds):
        for name, engine in engines.items():
            *ns, fired, deadlines, early = engine.live(options.timers, options.reach, options.pairs)
            rounds[name].append(tuple(ns))
            results.add((fired, deadlines))
            if early:
                sys.exit(f"{name} called {early:,} timers early")
    if len(results) != 1:
        sys.exit(f"not all called the same timers: {results}")
    print(
        f"{options.timers:,} timers, delays up to {options.reach:,} ticks; "
        f"ns, median (minimum) of {options.rounds} rounds"
    )
    print(f"{'':24}" + "".join(f"{name:>16}" for name in engines))
    for number, step in enumerate(STEPS):
        print(f"{step:24}" + "".join(f"{told([one[number] for one in rounds[name]]):>16}" for name in engines))
    for name in sorted({"ratas", "timeout.c"} - engines.keys()):
        print(f"{name} is not there, see the head of {Path(__file__).name}")
    (options.out / "c_api.json").write_text(json.dumps({"steps": STEPS, "ns": rounds}))


def compiled(source: str, out: Path, include: Path | str) -> Any:
    """The module that a file of this folder comes to."""
    name = source.partition(".")[0]
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", SETUP, name, str(HERE / source), str(include), str(HERE)]
    subprocess.run(command, cwd=out, check=True)
    found = importlib.util.spec_from_file_location(name, out / f"{name}{EXTENSION_SUFFIXES[0]}")
    assert found and found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def told(ns: list[float]) -> str:
    return f"{median(ns):.1f} ({min(ns):.1f})"


if __name__ == "__main__":
    main()
