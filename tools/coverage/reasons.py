"""The lines that no test reaches, each with its reason: reasons.toml. A line is named by its file, its function and its
text, so that its reason goes with it wherever it moves."""

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests" / "helpers"))
from reason_lists import reasons_in

LIST = Path(__file__).with_name("reasons.toml")
HEAD = re.compile(r"( *)(?:@|async )?(?:cdef|cpdef|def|class)\b")
NAME = re.compile(r"(?:class\s+(\w+)|[^=(]*?(\w+)\()")


def reasons() -> dict[str, str]:
    """{a line's name: why it is not reached}."""
    return reasons_in(LIST, "group", "lines")


def whole_files() -> dict[str, str]:
    """{a file of which the lines that are not reached have one reason: which}."""
    return reasons_in(LIST, "whole", "files")


def names(root: Path, file: Path) -> dict[int, str]:
    """{line: its name} of a whole file."""
    relative = file.relative_to(root)
    named, heads = {}, [(-1, "")]
    for number, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        stripped = text.strip()
        if not stripped:
            continue
        indent = len(text) - len(text.lstrip())
        if not stripped.startswith((")", "#")):
            while heads[-1][0] >= indent:
                heads.pop()
        if (
            HEAD.match(text)
            and (found := NAME.match(stripped))
            and (found[1] or stripped.split()[0] != "cdef" or "(" in text)
        ):
            heads.append((indent, found[1] or found[2]))
        named[number] = f"{relative} {heads[-1][1]}: {stripped}" if heads[-1][1] else f"{relative}: {stripped}"
    return named
