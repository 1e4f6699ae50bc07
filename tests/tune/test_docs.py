"""The examples in docs/replay.md. tests/spark/test_replay.py runs those that need Spark."""

import contextlib
import io
import re
import shlex
from pathlib import Path

from hwheel.cli.main import make_parser

PAGE = Path(__file__).parents[2] / "docs" / "replay.md"


def test_the_python_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n((?s:.*?))```\n\n((?:    .*\n)*)", PAGE.read_text())
    assert len(examples) == PAGE.read_text().count("```python") == 3
    names = {}
    for code, shown in examples:
        if "pyspark" in code:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), names)
        assert printed.getvalue() == re.sub("^    ", "", shown, flags=re.MULTILINE)


def test_the_options_of_the_commands():
    page = PAGE.read_text()
    commands = re.findall(r"hwheel tune [^`\n#]*", page)
    commands = [command for command in commands if "/" in command]
    assert len(commands) == 7
    for command in commands:
        make_parser().parse_args(shlex.split(command)[1:])
