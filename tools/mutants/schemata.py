"""All mutants of the wheel in one module: compiled once, each chosen while it runs, by a global int of C, `hw_mutant`.

No mutant has the number 0. A statement that has mutants becomes a choice between them and itself; of a condition, and
of what a name is declared with, that is a choice between values.
"""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from operators import mutants
from statements import Statement, Word, statements, text_of

ROOT = Path(__file__).parents[2]
ROOM = Path("hwheel_core/wheel")
SOURCES = ["pyproject.toml", "setup.py", "README.md", "LICENSE", "hwheel_core", "src"]
HEADER = Path(__file__).parent / "mutant.h"
DECLARATION = 'cdef extern from "mutant.h" nogil:\n    int hw_mutant\n    bint hw_unchanged(int, int)\n'


@dataclass(frozen=True)
class Mutant:
    """One change of one statement."""

    number: int
    site: int  # the number of the first mutant of the same statement
    file: str
    line: int
    function: str
    before: str
    after: str
    turn: int  # the how-manieth of its function with the same words, from 1

    @property
    def name(self) -> str:
        """The same as long as the statement is, wherever in its file that stands."""
        turn = f" ({self.turn})" if self.turn > 1 else ""
        return f"{self.file} {self.function}{turn}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class Site:
    """A statement and its mutants."""

    statement: Statement
    others: list[tuple[Mutant, list[Word]]]


def sites(folder: Path) -> Iterator[tuple[Path, list[Site]]]:
    """Of each file of the wheel, in the order of their names. The numbers are the same as long as the files are."""
    number = 0
    for path in sorted((folder / ROOM).glob("*.pxi")):
        found = []
        turns: Counter[tuple[str, str]] = Counter()
        for statement in statements(path.read_text(encoding="utf-8")):
            before = text_of(statement.words)
            turns[statement.function, before] += 1
            others: list[tuple[Mutant, list[Word]]] = []
            for words in mutants(statement):
                number += 1
                after = text_of(words) or "nothing"
                turn = turns[statement.function, before]
                first = others[0][0].number if others else number
                mutant = Mutant(number, first, path.name, statement.first, statement.function, before, after, turn)
                others.append((mutant, words))
            if others:
                found.append(Site(statement, others))
        yield path, found


def all_mutants(folder: Path = ROOT) -> list[Mutant]:
    return [mutant for _, found in sites(folder) for site in found for mutant, _ in site.others]


def write(target: Path) -> None:
    """A copy of the package's sources with all mutants in it."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, target / name)
    for path, found in sites(target):
        path.write_text(rewritten(path.read_text(encoding="utf-8"), found), encoding="utf-8")
    core = target / "hwheel_core"
    shutil.copy(HEADER, core)
    declared = (core / "_core.pxd").read_text(encoding="utf-8")
    before, first, after = declared.partition("cdef extern")
    (core / "_core.pxd").write_text(f"{before}{DECLARATION}\n{first}{after}", encoding="utf-8")


def rewritten(source: str, found: Iterable[Site]) -> str:
    lines = source.splitlines()
    for site in sorted(found, key=lambda site: -site.statement.first):
        statement = site.statement
        lines[statement.first - 1 : statement.last] = [statement.indent + line for line in choice(site)]
    return "\n".join(lines) + "\n"


def choice(site: Site) -> Iterator[str]:
    """The lines that stand in place of the statement."""
    words = [*site.statement.words]
    match words[0]:
        case "if" | "elif" | "while":
            # `not not`, because the values of a choice have to be of one type of C.
            yield f"{words[0]} {one_of(site, 1, 1, 'not not ')}:"
        case "cdef":
            begin = words.index("=") + 1
            end = value_end(words, begin)
            yield f"{text_of(words[:begin])} {one_of(site, begin, len(words) - end)}{text_of(words[end:])}"
        case "for":
            raise ValueError(f"a mutant of what a loop runs over: {text_of(words)}")
        case _:
            yield f"if {unchanged(site)}:"
            yield f"    {text_of(words)}"
            for mutant, other in site.others:
                yield f"elif hw_mutant == {mutant.number}:"
                yield f"    {text_of(other) or 'pass'}"


def one_of(site: Site, head: int, tail: int, cast: str = "") -> str:
    """The value that stands between so many words of the statement and so many others."""
    texts = [
        f"({cast}({text_of(words[head : len(words) - tail])}))"
        for words in [[*site.statement.words], *(other for _, other in site.others)]
    ]
    conditions = [unchanged(site), *(f"hw_mutant == {mutant.number}" for mutant, _ in site.others[:-1])]
    choices = [f"{text} if {condition} else " for text, condition in zip(texts, conditions, strict=False)]
    return f"({''.join(choices)}{texts[-1]})"


def unchanged(site: Site) -> str:
    return f"hw_unchanged({site.others[0][0].number}, {site.others[-1][0].number})"


def value_end(words: list[Word], begin: int) -> int:
    """Where the next name of the same declaration begins, with its comma."""
    depth = 0
    for at in range(begin, len(words)):
        depth += (words[at] in {"(", "["}) - (words[at] in {")", "]"})
        if depth == 0 and words[at] == ",":
            return at
    return len(words)
