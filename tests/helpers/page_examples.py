"""The Python blocks of a page of the docs, with the output and the file name that the page gives for each."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple


class Example(NamedTuple):
    code: str
    shown: str  # the output below the block
    file: str | None  # the file name in the first line of the block


def examples_of(page: Path) -> list[Example]:
    """Return all Python blocks of a page, in order."""
    found = re.findall(r"```python\n((?s:.*?))```\n\n?((?:    .*\n)*)", page.read_text())
    made = []
    for code, shown in found:
        name = re.match(r"# ([\w.]+\.py)\n", code)
        made.append(Example(code, re.sub("^    ", "", shown, flags=re.MULTILINE), name and name[1]))
    return made


def commands_of(page: Path, program: str) -> list[list[str]]:
    """Return the commands in the page's shell blocks that start this program, split into words."""
    blocks = re.findall(r"```sh\n((?s:.*?))```", page.read_text())
    return [words for line in "".join(blocks).splitlines() if (words := shlex.split(line)) and words[0] == program]
