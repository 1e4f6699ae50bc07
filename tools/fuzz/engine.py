"""Run one target under libFuzzer, in a process of its own because libFuzzer exits the process.

python -P tools/fuzz/engine.py TARGET [arguments of libFuzzer]
"""

import importlib
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent))


def main() -> None:
    """Start libFuzzer, which does not return."""
    with atheris.instrument_imports(include=["hwheel"]):
        target = importlib.import_module(f"targets.{sys.argv[1]}")
    atheris.Setup(sys.argv[1:], lambda data: target.run(data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
