"""What the README and the docstrings show is what happens."""

import doctest
import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import hwheel
import hwheel_core._core

README = Path(__file__).parents[2] / "README.md"
EXAMPLES = re.findall(r"```python\n((?s:.*?))```\n\n((?:    .*\n)*)", README.read_text())


def test_the_readme_has_its_examples():
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize(("code", "shown"), EXAMPLES)
def test_a_readme_example_prints_what_is_shown_below_it(code, shown):
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, str(README), "exec"), {})
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


def test_the_docstring_of_the_package_is_true():
    assert doctest.testmod(hwheel).failed == 0
