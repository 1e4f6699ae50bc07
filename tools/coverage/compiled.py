"""Which lines of the compiled core have run: gcov counts lines of C, and Cython says there of which of ours each is.

Coverage tells its report about them through a plugin, so that they stand in it beside the lines of Python.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
from coverage.plugin import CoveragePlugin, FileReporter

MARK = re.compile(r'\s*/\* "(hwheel_core/[^"]+)":(\d+)$')
# After these comes what belongs to no line: the end of a function, or what stands behind a loop or a try.
ENDS = re.compile(r"\s*/\* function exit code \*/|\s*__pyx_L\w+:|\}")


def lines_of_c(path: Path) -> Iterator[tuple[int, str, int]]:
    """(a line of the C file, the file and the line of ours that it was made of)."""
    mark, in_comment = None, False
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if found := MARK.match(text):
            mark, in_comment = (found[1], int(found[2])), True
        elif in_comment:
            in_comment = not text.rstrip().endswith("*/")
        elif ENDS.match(text):
            mark = None
        elif mark is not None:
            yield number, *mark


def counted(build: Path) -> dict[str, dict[int, bool]]:
    """{file of ours: {line: whether it has run}} of an instrumented build, which has its objects somewhere below."""
    (c_file,) = build.rglob("_core.c")
    (notes,) = build.rglob("_core.gcno")
    command = ["gcov", "--json-format", "--stdout", str(notes)]
    said = json.loads(subprocess.run(command, cwd=build, check=True, capture_output=True, text=True).stdout)
    counts: dict[int, int] = {}
    for file in said["files"]:
        if file["file"].endswith("_core.c"):
            for line in file["lines"]:
                counts[line["line_number"]] = max(counts.get(line["line_number"], 0), line["count"])
    found: dict[str, dict[int, bool]] = {}
    for c_line, file, line in lines_of_c(c_file):
        if c_line in counts:
            lines = found.setdefault(file, {})
            lines[line] = lines.get(line, False) or counts[c_line] > 0
    return found


class CoreLines(FileReporter):
    """What the report wants to know of a file of the core."""

    def __init__(self, filename: str, known: set[int]) -> None:
        super().__init__(filename)
        self.known = known

    def lines(self) -> set[int]:
        return self.known


class CorePlugin(CoveragePlugin):
    """Told the lines by __main__.py, through `known`."""

    known: dict[str, set[int]] = {}

    def file_reporter(self, filename: str) -> FileReporter:
        return CoreLines(filename, self.known[filename])


def coverage_init(registry: Any, options: Any) -> None:
    registry.add_file_tracer(CorePlugin())


def add(data: coverage.CoverageData, root: Path, found: dict[str, dict[int, bool]]) -> None:
    """Puts what was counted beside what Python has noted."""
    ran = {str(root / file): [line for line, has_run in lines.items() if has_run] for file, lines in found.items()}
    CorePlugin.known = {str(root / file): {*lines} for file, lines in found.items()}
    data.add_lines(ran)
    data.add_file_tracers(dict.fromkeys(ran, "compiled.CorePlugin"))
