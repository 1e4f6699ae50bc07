"""What docs/purgatory.md shows is what happens."""

import io
import re
import runpy
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "purgatory.md").read_text()
EXAMPLES = re.findall(r"```python\n((?s:.*?))```\n\n((?:    .*\n)+)", PAGE)


def test_the_page_has_its_examples():
    assert len(EXAMPLES) == PAGE.count("```python") == 4


@pytest.mark.parametrize(("code", "shown"), EXAMPLES)
def test_an_example_prints_what_is_shown_below_it(code, shown):
    if "hwheel.metrics" in code:
        pytest.importorskip("prometheus_client")
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "docs/purgatory.md", "exec"), {})
    assert printed.getvalue() == re.sub("^    ", "", shown, flags=re.MULTILINE)


def test_the_broker_in_miniature_prints_what_the_page_shows():
    printed = io.StringIO()
    with redirect_stdout(printed):
        runpy.run_path(str(ROOT / "examples" / "broker_in_miniature.py"), run_name="__main__")
    assert f"```\n{printed.getvalue()}```\n" in PAGE
