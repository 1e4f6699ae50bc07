"""Break the wheel in small ways and check that the comparison with the model (tools/plain) detects each.

A mutant changes one operator, constant, or statement of a file in hwheel_core/wheel. It is killed if the program does
not compile, fails under AddressSanitizer, or does not finish. A mutant that survives is printed. Either it is
equivalent to the original, or only the tests in Python detect it, or a test is missing.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "plain"))
import plain_build

WHEEL = plain_build.CORE / "wheel"
INPUTS = 3000
PATIENCE_S = 60
# (pattern, replacements)
OPERATORS = [
    (re.compile(r" <= "), (" < ", " > ")),
    (re.compile(r" >= "), (" > ", " < ")),
    (re.compile(r" < "), (" <= ", " >= ")),
    (re.compile(r" > "), (" >= ", " <= ")),
    (re.compile(r" == "), (" != ",)),
    (re.compile(r" != "), (" == ",)),
    (re.compile(r" is not "), (" is ",)),
    (re.compile(r" is (?!not )"), (" is not ",)),
    (re.compile(r" and "), (" or ",)),
    (re.compile(r" or "), (" and ",)),
    (re.compile(r" \+ "), (" - ",)),
    (re.compile(r" - "), (" + ",)),
    (re.compile(r" \+= "), (" -= ", " = ")),
    (re.compile(r" -= "), (" += ", " = ")),
    (re.compile(r"\.next\b"), (".prev",)),
    (re.compile(r"\.prev\b"), (".next",)),
    (re.compile(r"(?<=[ (\[])0(?=[\s,)\]:])"), ("1",)),
    (re.compile(r"(?<=[ (\[])1(?=[\s,)\]:])"), ("2", "0")),
    (re.compile(r"\bTrue\b"), ("False",)),
    (re.compile(r"\bFalse\b"), ("True",)),
    (re.compile(r"(?<=\bif )(?!not )(.+)(?=:$)"), (r"not (\1)", "True", "False")),
    (re.compile(r"(?<=\bif not )(.+)(?=:$)"), (r"not (\1)",)),
    (re.compile(r"^( +)(?:\w[\w.\[\]]* [+\-|&]?= .+|\w+\(.*\)|return|break|continue)$"), (r"\1pass",)),
]
SKIPPED = re.compile(r"^\s*(#|cdef |cimport |from |ctypedef |\"\"\"|$)")


def mutants_of(file: Path) -> list[tuple[Path, int, str]]:
    """Return (file, line number, changed line) for every mutant of a file."""
    found, in_function = [], False
    for number, whole in enumerate(file.read_text().splitlines(), 1):
        line, comment, _ = whole.partition("  #")
        if not line.startswith(" "):
            in_function = line.startswith("cdef ") and line.endswith(":") and "nogil" in line
        if not in_function or SKIPPED.match(line) or "hint" in line or "prefetch" in line:
            continue
        for pattern, replacements in OPERATORS:
            for match in pattern.finditer(line):
                for replacement in replacements:
                    changed = line[: match.start()] + match.expand(replacement) + line[match.end() :]
                    found.append((file, number, changed))
    return found


def survives(mutant: tuple[Path, int, str]) -> bool:
    """Build and run a mutant. Return True if it was not detected."""
    file, number, changed = mutant
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain_build.write_sources(folder, plain_build.SMALL_SLICES)
        copy = folder / "core" / "wheel" / file.name
        lines = copy.read_text().splitlines()
        lines[number - 1] = changed
        copy.write_text("\n".join(lines) + "\n")
        try:
            plain_build.translate(folder)
            program = plain_build.compile_program(folder, "cc", "-O1", "-fsanitize=address,undefined", "model.c")
            limits = os.environ | {"ASAN_OPTIONS": "hard_rss_limit_mb=2000", "UBSAN_OPTIONS": "halt_on_error=1"}
            command = [str(program), "random", "0", "1", str(INPUTS)]
            done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, env=limits, check=False)
            return done.returncode == 0
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return False


def main() -> int:
    """Run the command. Return 1 if a mutant survives."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--count", type=int, help="try a random sample of this size (default: all mutants)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample")
    parser.add_argument("--only", help="change only this file, for example queue.pxi")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    files = [file for file in sorted(WHEEL.glob("*.pxi")) if options.only in (None, file.name)]
    mutants = [mutant for file in files for mutant in mutants_of(file)]
    if options.count is not None:
        mutants = random.Random(options.seed).sample(mutants, min(options.count, len(mutants)))
    survivors = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for (file, number, changed), survived in zip(mutants, pool.map(survives, mutants), strict=True):
            if survived:
                survivors += 1
                print(f"survived: {file.name}:{number}: {changed.strip()}", flush=True)
    print(f"{len(mutants)} mutants, {len(mutants) - survivors} killed, {survivors} survived")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
