"""The examples of the README and of the docs print the text below them."""

import io
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from page_examples import examples_of
from programs import output_of

pytestmark = pytest.mark.usefixtures("the_engine_runs")
ROOT = Path(__file__).parents[2]
TESTED_ELSEWHERE = {
    "docs/c_api.md": "tests/c_api/test_docs.py",
    "docs/replay.md": "tests/tune/test_docs.py",
    "docs/spark.md": "tests/spark/test_docs.py",
    "docs/spark_by_id.md": "tests/spark/test_docs.py",
    "docs/kafka.md": "tests/kafka/test_topics.py",
}
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").rglob("*.md")} - {ROOT / page for page in TESTED_ELSEWHERE})]
EXAMPLES = [
    pytest.param(page, example, id=f"{page.stem} {number}")
    for page in PAGES
    for number, example in enumerate(examples_of(page), start=1)
]
SNIPPETS = [one for one in EXAMPLES if one.values[1].file is None]
FILES = [one for one in EXAMPLES if one.values[1].file is not None]


def skip_unless_installed(code):
    for text, module in {
        "hwheel.metrics": "prometheus_client",
        "hwheel.twisted": "twisted",
        "uvloop": "uvloop",
    }.items():
        if text in code:
            pytest.importorskip(module)


def test_every_example_is_tested():
    assert len(EXAMPLES) == sum(page.read_text().count("```python") for page in PAGES)
    assert len(SNIPPETS) >= 30 and len(FILES) >= 13
    for page, tests in TESTED_ELSEWHERE.items():
        assert f'"{Path(page).name}"' in (ROOT / tests).read_text() or f'"{page}"' in (ROOT / tests).read_text()


@pytest.mark.parametrize(("page", "example"), SNIPPETS)
def test_snippet_prints_the_text_below_it(page, example):
    skip_unless_installed(example.code)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(example.code, str(page), "exec"), {})
    assert printed.getvalue() == example.shown


@pytest.mark.parametrize(("page", "example"), FILES)
def test_file_runs_and_prints_the_text_below_it(page, example, tmp_path):
    skip_unless_installed(example.code)
    for other in examples_of(page):
        if other.file:
            (tmp_path / other.file).write_text(other.code)
    if example.file.startswith("test_"):
        command = ["-m", "pytest", "-q", "-p", "no:looptime_plugin", "-p", "no:cacheprovider", example.file]
    elif example.shown:
        command = [example.file]
    else:  # a module that another file uses, or a server, which does not start on import
        command = ["-c", f"import runpy; runpy.run_path({example.file!r})"]
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert example.file.startswith("test_") or done.stdout == example.shown


def test_broker_prints_the_output_on_the_page_of_purgatories():
    printed = output_of(ROOT / "examples" / "broker_in_miniature.py")
    assert f"```\n{printed}```\n" in (ROOT / "docs" / "purgatory.md").read_text()
