"""What the README, the docs and the docstrings show is what happens."""

import doctest
import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import hwheel
import hwheel.sched
import hwheel_core._core  # noqa: F401    (whose docstrings are examples, too)

pytestmark = pytest.mark.usefixtures("the_engine_runs")
ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs/containers.md",
    ROOT / "docs/drop_in.md",
    ROOT / "docs/wheel_size.md",
]
EXAMPLES = [
    pytest.param(page, code, shown, id=f"{page.stem} {number}")
    for page in PAGES
    for number, (code, shown) in enumerate(
        re.findall(r"```python\n((?s:.*?))```\n\n((?:    .*\n)*)", page.read_text()), start=1
    )
]


def test_every_example_of_the_pages_is_tested():
    assert len(EXAMPLES) == sum(page.read_text().count("```python") for page in PAGES) >= 5


@pytest.mark.parametrize(("page", "code", "shown"), EXAMPLES)
def test_an_example_prints_what_is_shown_below_it(page, code, shown):
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, str(page), "exec"), {})
    assert printed.getvalue() == re.sub("^    ", "", shown, flags=re.MULTILINE)


PUBLIC = [getattr(hwheel, name) for name in hwheel.__all__ if isinstance(getattr(hwheel, name), type)]


@pytest.mark.parametrize("public", PUBLIC, ids=lambda public: public.__name__)
def test_the_examples_in_a_docstring_are_true(public):
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for example in finder.find(public, public.__name__, globs={}):
        runner.run(example)
    assert runner.summarize(verbose=False).failed == 0


def test_every_public_name_says_what_it_is():
    for public in PUBLIC:
        assert public.__doc__, public
        for name in dir(public):
            member = getattr(public, name)
            if not name.startswith("_") and callable(member) and not issubclass(public, tuple | Exception):
                assert member.__doc__, f"{public.__name__}.{name} has no docstring"


@pytest.mark.parametrize("module", [hwheel, hwheel.sched], ids=lambda module: module.__name__)
def test_the_docstring_of_a_module_is_true(module):
    assert doctest.testmod(module).failed == 0
