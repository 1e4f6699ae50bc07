"""The examples of docs/purgatory.md."""

import io
import re
import runpy
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "purgatory.md").read_text()
EXAMPLES = re.findall(r"```python\n((?s:.*?))```\n\n((?:    .*\n)+)", PAGE)


def test_page_has_its_examples():
    assert len(EXAMPLES) == PAGE.count("```python") == 4


@pytest.mark.parametrize(("code", "shown"), EXAMPLES)
def test_example_prints_the_output_shown_below_it(code, shown):
    if "hwheel.metrics" in code:
        pytest.importorskip("prometheus_client")
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "docs/purgatory.md", "exec"), {})
    assert printed.getvalue() == re.sub("^    ", "", shown, flags=re.MULTILINE)


def test_broker_example_prints_the_output_on_the_page():
    printed = io.StringIO()
    with redirect_stdout(printed):
        runpy.run_path(str(ROOT / "examples" / "broker_in_miniature.py"), run_name="__main__")
    assert f"```\n{printed.getvalue()}```\n" in PAGE
