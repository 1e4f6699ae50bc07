"""Reads a .pxi of plain C functions as statements, which is as much of Cython's grammar as mutants need."""

import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from tokenize import TokenInfo

LAYOUT = {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT}


class Word(str):
    """A token, and whether a space stands before it."""

    gap: str

    def __new__(cls, text: str, gap: str = " ") -> "Word":
        word = super().__new__(cls, text)
        word.gap = gap
        return word


@dataclass(frozen=True)
class Statement:
    """A logical line of a function's body, without what hangs below it."""

    function: str
    pointers: dict[str, str]  # the function's names that are pointers to something: to what
    first: int  # its lines, from 1
    last: int
    indent: str
    words: tuple[Word, ...]
    ends_function: bool  # nothing of the function comes after it, and it is in no branch


def text_of(words: tuple[Word, ...] | list[Word]) -> str:
    return "".join(word.gap + word for word in words).strip()


def statements(source: str) -> Iterator[Statement]:
    """All statements of all functions, in order. Docstrings, heads of functions, and declarations of names without a
    value are none."""
    lines = [*logical_lines(source)]
    function, pointers = "", dict[str, str]()
    for tokens, following in zip(lines, [*lines[1:], None], strict=True):
        words = words_of(tokens)
        column = tokens[0].start[1]
        if column == 0:
            is_function = words[0] == "cdef" and words[-1] == ":" and "nogil" in words
            function = words[words.index("(") - 1] if is_function else ""
            pointers = pointers_in(words)
        elif function:
            if words[0] == "cdef":
                pointers = pointers | pointers_in(words)
            if tokens[0].type == tokenize.STRING or (words[0] == "cdef" and "=" not in words):
                continue
            ends = column == 4 and (following is None or following[0].start[1] == 0)
            first, last = tokens[0].start[0], tokens[-1].end[0]
            yield Statement(function, pointers, first, last, " " * column, words, ends)


def logical_lines(source: str) -> Iterator[list[TokenInfo]]:
    line: list[TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            yield line
            line = []
        elif token.type not in LAYOUT and token.type != tokenize.ENDMARKER:
            line.append(token)


def words_of(tokens: list[TokenInfo]) -> tuple[Word, ...]:
    befores = [tokens[0], *tokens]
    return tuple(
        Word(token.string, " " if before.end != token.start and before is not token else "")
        for before, token in zip(befores, tokens, strict=False)
    )


def pointers_in(words: tuple[Word, ...]) -> dict[str, str]:
    """`T* name` and `T** name` in a head or a declaration."""
    found = {}
    for at in range(2, len(words)):
        if words[at].isidentifier() and words[at - 1] in {"*", "**"} and (words[at + 1 :] or ",")[0] in {",", ")", "="}:
            kind = at - 1
            while words[kind] in {"*", "**"}:
                kind -= 1
            found[str(words[at])] = str(words[kind])
    return found
