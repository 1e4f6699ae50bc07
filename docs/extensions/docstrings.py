"""Our docstrings are plain sentences, for help(). This makes reStructuredText of them, and gives compiled classes the
signatures of their stubs, which have types."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

STUBS = Path(__file__).parents[2] / "hwheel_core" / "_core.pyi"
HEADS = ("Arguments", "Raises", "Returns", "Runtime complexity", "Thread-safety")
NAME = r"\*{0,2}\w+(?:\(\))?"
ITEM = re.compile(rf"({'|'.join(HEADS)}|{NAME}(?:, {NAME})*):(?: +(.*)|$)")
# What is written for a type checker, and what a reader makes of it.
PLAINLY = {
    r"Callable\[\[(\*_Ts|Unpack\[_Ts\])\], object\]": "Callable[..., object]",
    r"\*args: (\*_Ts|Unpack\[_Ts\])": "*args: Any",
    r"\b_Task\b": "TimerTask",
    r"\b_Seconds\b": "float",
    r"\b_Int64s\b": "Buffer",
    r"\b_Random\b": "random.Random",
    r"\b_?Operation\b": "DelayedOperation",
    r"\bLoopHandle\b": "TimerHandle",
    r"~?\bhwheel\.\w+(\.\w+)*\.(?=(TimerTask|DelayedOperation|TimerHandle)\b)": "",
}


def text(words: str) -> str:
    """A line of a docstring: `code` in single backticks stays code, and nothing else means anything."""
    parts = re.split(r"`([^`]+)`", words)
    for number, part in enumerate(parts):
        if number % 2:
            follows = parts[number + 1][:1]
            parts[number] = f"``{part}``" + ("\\ " if follows.isalnum() else "")
        else:
            plain = re.sub(r"([\\*|])|_(?=\W|$)", lambda found: "\\" + found[0], part)
            parts[number] = re.sub(r"\bdocs/(\w+)\.md\b", r":doc:`/\1`", plain)
    return "".join(parts)


def items(lines: list[str]) -> list[tuple[str, list[str]]]:
    """What `name: text` lines say, with the lines that belong to each: indented ones, and those that begin no item."""
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if item := ITEM.fullmatch(line):
            found.append((item[1], [item[2] or ""]))
        else:
            found[-1][1].append(line)
    return found


def is_list(lines: list[str]) -> bool:
    """Whether a paragraph is a list of `name: text`, and no sentence with a colon in it."""
    first = ITEM.fullmatch(lines[0])
    others = lines[1:]
    return bool(first) and (first[1] in HEADS or any(line.startswith(" ") or ITEM.fullmatch(line) for line in others))


def listed(lines: list[str]) -> list[str]:
    """A list of `name: text` as reStructuredText."""
    made: list[str] = []
    for name, about in items(lines):
        own = " ".join(filter(None, (line.strip() for line in about)))
        inner = [line[4:] for line in about[1:]]
        if not about[0] and inner and ITEM.fullmatch(inner[0]):
            made += ["", f"**{name}**", "", *listed(inner), ""]
        elif name not in HEADS:
            made += [f"- ``{name}``: {text(own)}"]
        else:
            made += ["", f"**{name}:** {text(own)}", ""]
    return made


def paragraph(lines: list[str]) -> list[str]:
    """A paragraph as reStructuredText."""
    if lines[0].startswith(">>>"):
        return lines
    if all(line.startswith("    ") for line in lines):
        return ["::", "", *lines]
    if is_list(lines):
        return listed(lines)
    return [text(line.strip()) for line in lines]


def as_restructured(lines: list[str], name: str) -> list[str]:
    """A docstring as reStructuredText; without its first line, if that is a signature."""
    if lines and lines[0].startswith(f"{name.rpartition('.')[2]}("):
        lines = lines[1:]
    made: list[str] = []
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            made += [*paragraph(block), ""]
            block = []
    return made


def process_docstring(app: Sphinx, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    """Sphinx asks this of each docstring."""
    lines[:] = as_restructured(lines, name)


@cache
def stubbed() -> dict[str, tuple[str, str | None]]:
    """{"Class.method": its arguments and what it returns}"""
    found: dict[str, tuple[str, str | None]] = {}
    for top in ast.parse(STUBS.read_text()).body:
        if isinstance(top, ast.ClassDef):
            for one in top.body:
                if isinstance(one, ast.FunctionDef) and one.args.args:
                    one.args.args.pop(0)
                    returns = plainly(ast.unparse(one.returns)) if one.returns else None
                    found[f"{top.name}.{one.name}"] = f"({plainly(ast.unparse(one.args))})", returns
    return found


def plainly(types: str) -> str:
    """A signature without type variables and other names that are nobody's but the source's."""
    for name, plain in PLAINLY.items():
        types = re.sub(name, plain, types)
    return types


def process_signature(
    app: Sphinx, what: str, name: str, of: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """Sphinx asks this of each signature. It has no place for one where it found none itself, as for compiled classes:
    these stand on the pages."""
    owner, _, last = name.rpartition(".")
    if what != "method" or signature is None:
        return None
    for kind in getattr(_resolve(owner), "__mro__", ()):
        if last in kind.__dict__ and (found := stubbed().get(f"{kind.__name__}.{last}")):
            return found
    return plainly(signature), plainly(returns) if returns else None


def _resolve(dotted: str) -> Any:
    import importlib

    module, _, name = dotted.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        return None


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("autodoc-process-docstring", process_docstring)
    app.connect("autodoc-process-signature", process_signature)
    return {"parallel_read_safe": True}
