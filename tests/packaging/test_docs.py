"""The pages agree with the package. `make docs` checks their links."""

import importlib
import importlib.util
import re
import sys
from pathlib import Path

import pytest

import hwheel
from hwheel.cli.main import make_parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def load(file):
    """Import a file of docs/, which is not a package."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pictures = load(DOCS / "pictures" / "draw.py")


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_pictures_of_wheels_are_up_to_date(name):
    assert (DOCS / "pictures" / name).read_text() == pictures.PICTURES[name](), "docs/pictures/draw.py draws them"


def test_every_picture_is_on_the_page():
    drawn = {file.name for file in (DOCS / "pictures").glob("*.svg")}
    assert drawn == {*pictures.PICTURES}
    assert {*re.findall(r"\]\(pictures/([\w.]+\.svg)\)", (DOCS / "how_it_works.md").read_text())} == drawn


def rows_of(page, columns):
    """Return the rows of the first table of a page with so many columns, without its header."""
    found = [line.strip("| ").split(" | ") for line in page.read_text().splitlines() if line.startswith("| ")]
    return [row for row in found if len(row) == columns][1:]


def test_every_guarantee_names_its_tests():
    rows = rows_of(DOCS / "guarantees.md", 3)
    assert len(rows) >= 10
    for name, _, tests in rows:
        files = re.findall(r"\]\(\.\./(tests/[\w/]+\.py)\)", tests)
        assert files, name
        for file in files:
            assert re.search(r"^def test_|\.TestCase$", (ROOT / file).read_text(), re.MULTILINE), file


def public_modules():
    """Return the submodules that docs/versions.md calls public."""
    text = (DOCS / "versions.md").read_text().partition("`__all__` of")[2].partition(";")[0]
    names = [name for name in re.findall(r"`([\w.]+)`", text) if name != "hwheel"]
    assert len(names) >= 8
    return names


def public_names():
    """Yield (module, name) for all public modules that can be imported here."""
    for module in ["hwheel", *(f"hwheel.{name}" for name in public_modules())]:
        try:
            yield from ((module, name) for name in importlib.import_module(module).__all__)
        except ImportError:
            continue


def test_examples_import_only_public_modules():
    public = {"hwheel", *(f"hwheel.{name}" for name in public_modules())}
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    shown = {
        (page.name, module)
        for page in pages
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
        for module in re.findall(r"^ *(?:from|import) (hwheel[\w.]*)", block, re.MULTILINE)
    }
    assert len(shown) >= 30
    assert [(page, module) for page, module in sorted(shown) if module not in public] == []
    index = (DOCS / "reference" / "index.md").read_text()
    for module in public:
        assert f"[{module}](" in index, module


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="some extras do not support this Python yet")
def test_every_public_name_is_in_the_reference():
    names = [*public_names()]
    assert len(names) >= 55
    for module, name in names:
        page = (DOCS / "reference" / f"{module.removeprefix('hwheel.').replace('.', '_')}.md").read_text()
        named = rf"^\.\. (?:auto|py:)\w+:: {name}\b|`hwheel\.{name}`"
        assert re.search(named, page, re.MULTILINE), f"{module}.{name}"


def own_members(cls):
    """Return the public names that the package, not a base class of another library, defines for a class."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("hwheel") and not issubclass(base, tuple)]
    return {name for base in ours for name in vars(base) if not name.startswith("_")}


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="some extras do not support this Python yet")
def test_every_public_method_is_in_the_reference():
    # {class: the class whose section has its other methods}
    documented_bases = {"ManualTimer": hwheel.SystemTimer, "DelayedOperation": hwheel.TimerTask}
    documented_bases["DelayQueue"] = hwheel.DelayQueue  # of hwheel.asyncio
    documented_bases["TLRUCache"] = importlib.import_module("hwheel.cachetools").TTLCache
    documented_bases["DelayedFuture"] = importlib.import_module("hwheel.purgatory").DelayedOperation
    internal = {"Timeouts": {"asking", "debug", "loop", "run"}}  # for event loops
    checked = 0
    for module, name in public_names():
        cls = getattr(importlib.import_module(module), name)
        page = DOCS / "reference" / f"{module.removeprefix('hwheel.').replace('.', '_')}.md"
        section = re.search(rf"^\.\. autoclass:: {name}\b.*\n((?:\n|   .*\n)*)", page.read_text(), re.MULTILINE)
        if not isinstance(cls, type) or not section or name in ("BaseTimer", "RecordingTimer", "EventLoopPolicy"):
            continue
        if ":members:" in section[1]:
            continue
        listed = {*re.findall(r"^   \.\. (?:auto|py:)\w+:: (\w+)", section[1], re.MULTILINE)}
        members = own_members(cls) - internal.get(name, set())
        if (base := documented_bases.get(name)) and cls is not base:
            members -= own_members(base)
        assert members <= listed, f"{module}.{name}: {members - listed}"
        checked += len(members)
    assert checked >= 150


def test_every_command_is_in_the_reference():
    commands = next(action for action in make_parser()._actions if action.choices).choices
    page = (DOCS / "reference" / "command.md").read_text()
    assert re.findall(r"^:path: (\w+)$", page, re.MULTILINE) == [*commands]


def test_the_page_lists_every_metric():
    pytest.importorskip("prometheus_client")
    from hwheel import ManualTimer
    from hwheel.metrics import PurgatoryCollector, TimerCollector
    from hwheel.purgatory import DelayedOperationPurgatory

    page = (DOCS / "prometheus.md").read_text()
    with ManualTimer() as timer, DelayedOperationPurgatory("page", timer) as purgatory:
        families = [*TimerCollector(timer).collect(), *PurgatoryCollector(purgatory).collect()]
    for family in families:
        name = family.name + ("_total" if family.type == "counter" else "")
        short = re.sub("^hwheel_(timer|purgatory)", "", name)
        assert name in page or f"`{short}`" in page, name
