"""One target under libFuzzer, as a process of its own, because libFuzzer ends the process itself.

    python -P tools/fuzz/engine.py TARGET COUNTS [what libFuzzer takes]

COUNTS: a file of two int64, which this counts inputs and operations into, so that they are there whatever happens.
"""

import importlib
import mmap
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent))


def main() -> None:
    name, counts = sys.argv[1:3]
    with atheris.instrument_imports(include=["hwheel"]):
        target = importlib.import_module(f"targets.{name}")
    with open(counts, "r+b") as file:
        counted = memoryview(mmap.mmap(file.fileno(), 16)).cast("q")

    def run(data: bytes) -> None:
        counted[1] += target.run(data)
        counted[0] += 1

    # A merge starts its command anew, which it takes for one word.
    itself = " ".join([sys.executable, "-P", *sys.argv[:3]])
    atheris.Setup([itself, *sys.argv[3:]], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
