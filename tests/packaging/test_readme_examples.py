"""What the README, the docs and the docstrings show is what happens."""

import doctest
import io
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import hwheel
import hwheel.sched
import hwheel_core._core  # noqa: F401    (whose docstrings are examples, too)
from page_examples import examples_of

pytestmark = pytest.mark.usefixtures("the_engine_runs")
ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "docs/c_api.md": "tests/c_api/test_docs.py",
    "docs/purgatory.md": "tests/purgatory/test_docs.py",
    "docs/replay.md": "tests/tune/test_docs.py",
    "docs/spark.md": "tests/spark/test_docs.py",
    "docs/spark_by_id.md": "tests/spark/test_docs.py",
    "docs/kafka.md": "tests/kafka/test_topics.py",
}
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").rglob("*.md")} - {ROOT / page for page in ELSEWHERE})]
EXAMPLES = [
    pytest.param(page, example, id=f"{page.stem} {number}")
    for page in PAGES
    for number, example in enumerate(examples_of(page), start=1)
]
PRINTING = [one for one in EXAMPLES if one.values[1].file is None]
FILES = [one for one in EXAMPLES if one.values[1].file is not None]


def test_every_example_of_the_pages_is_tested():
    assert len(EXAMPLES) == sum(page.read_text().count("```python") for page in PAGES)
    assert len(PRINTING) >= 30 and len(FILES) >= 13
    for page, tests in ELSEWHERE.items():
        assert f'"{Path(page).name}"' in (ROOT / tests).read_text() or f'"{page}"' in (ROOT / tests).read_text()


@pytest.mark.parametrize(("page", "example"), PRINTING)
def test_an_example_prints_what_is_shown_below_it(page, example):
    if "hwheel.metrics" in example.code:
        pytest.importorskip("prometheus_client")
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(example.code, str(page), "exec"), {})
    assert printed.getvalue() == example.shown


@pytest.mark.parametrize(("page", "example"), FILES)
def test_a_file_that_a_page_shows_does_what_the_page_says(page, example, tmp_path):
    if "hwheel.twisted" in example.code:
        pytest.importorskip("twisted")
    if "uvloop" in example.code:
        pytest.importorskip("uvloop")
    for other in examples_of(page):
        if other.file:
            (tmp_path / other.file).write_text(other.code)
    if example.file.startswith("test_"):
        command = ["-m", "pytest", "-q", "-p", "no:looptime_plugin", "-p", "no:cacheprovider", example.file]
    elif example.shown:
        command = [example.file]
    else:  # a module, which another file uses, or a server that is told to run
        command = ["-c", f"import runpy; runpy.run_path({example.file!r})"]
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert example.file.startswith("test_") or done.stdout == example.shown


PUBLIC = [getattr(hwheel, name) for name in hwheel.__all__ if isinstance(getattr(hwheel, name), type)]


def test_the_public_classes_have_examples():
    finder = doctest.DocTestFinder(recurse=False)
    found = [test for public in PUBLIC for test in finder.find(public, public.__name__, globs={})]
    assert sum(len(test.examples) for test in found) >= 45


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
