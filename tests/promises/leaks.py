"""Print the leaks of the core in the reports of LeakSanitizer. `nox -s leaks` runs this.

    python tests/promises/leaks.py FOLDER

The folder has one report per process. The interpreter and NumPy never free some memory of their start. A leak belongs
to the core if a function of the core is in its stack, except for the notes that tracemalloc takes of an allocation.
"""

import re
import sys
from pathlib import Path

CORE = "hwheel_core"  # in the names of its file and of its functions
NOTES = "in traceback_new Modules/_tracemalloc.c"


def leaks(report: str) -> list[str]:
    """Return the leaks of the core in a report, each with its stack."""
    return [leak for leak in re.split(r"\n\s*\n", report) if " leak of " in leak and CORE in leak and NOTES not in leak]


def main() -> int:
    """Run the command and return its exit status."""
    reports = [file.read_text() for file in sorted(Path(sys.argv[1]).iterdir())]
    found = [leak for report in reports for leak in leaks(report)]
    print("\n\n".join(found))
    others = sum(report.count(" leak of ") for report in reports) - len(found)
    print(
        f"leaks of the core: {len(found)}; of the interpreter and other modules: {others}, in {len(reports)} processes"
    )
    return 1 if found or not reports else 0


if __name__ == "__main__":
    sys.exit(main())
