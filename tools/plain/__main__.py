"""Run the plain half of the core, which holds no Python object, as a program in C.

`random` compares the core with a simple model on random inputs. `inputs` does the same on files, for example those that
tools/fuzz found. tools/schedules runs threads.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import plain_build


def command_of(options: argparse.Namespace, folder: Path) -> list[str]:
    """Build the program and return its command."""
    program = plain_build.build(folder)
    if options.mode == "random":
        return [str(program), "random", "0", str(options.seed), str(options.count)]
    return [str(program), "inputs", "0", *map(str, options.files)]


def main() -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="plain", description=__doc__)
    modes = parser.add_subparsers(dest="mode", required=True)
    random = modes.add_parser("random", help="random inputs, compared with the model")
    random.add_argument("--count", type=int, default=100_000)
    random.add_argument("--seed", type=int, default=1)
    inputs = modes.add_parser("inputs", help="inputs from files, compared with the model")
    inputs.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(command_of(options, Path(folder)), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
