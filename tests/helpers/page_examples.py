"""The Python of a page: blocks that print what is shown below them, and files that a reader is told to save."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple


class Example(NamedTuple):
    """file: the name that its first line gives the block; None: it is not to be saved. shown: what stands below."""

    code: str
    shown: str
    file: str | None


def examples_of(page: Path) -> list[Example]:
    """All Python blocks of a page, in order."""
    found = re.findall(r"```python\n((?s:.*?))```\n\n?((?:    .*\n)*)", page.read_text())
    made = []
    for code, shown in found:
        name = re.match(r"# ([\w.]+\.py)\n", code)
        made.append(Example(code, re.sub("^    ", "", shown, flags=re.MULTILINE), name and name[1]))
    return made


def commands_of(page: Path, program: str) -> list[list[str]]:
    """The lines of a page's blocks of shell that start a program, in words."""
    blocks = re.findall(r"```sh\n((?s:.*?))```", page.read_text())
    return [words for line in "".join(blocks).splitlines() if (words := shlex.split(line)) and words[0] == program]
