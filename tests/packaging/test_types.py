"""mypy and pyright find every mistake in typing_mistakes.py and nothing in typing_examples.py.

They check against the installed package, as for users. `make check` installs them.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MISTAKES, RIGHT = HERE / "typing_mistakes.py", HERE / "typing_examples.py"
PATIENCE_S = 300


def installed(module):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install --group check")


def mypy(file, where):
    """Return {(file, line): error} of mypy."""
    installed("mypy")
    # It runs outside of the tree, away from our configuration and from the sources of the package.
    command = [sys.executable, "-P", "-m", "mypy", "--strict", "--output", "json", "--warn-unused-ignores"]
    command += ["--cache-dir", where / "cache", "--config-file", "", "--python-executable", sys.executable, file]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(Path(one["file"]).name, one["line"]): one["message"] for one in found if one["severity"] == "error"}


def pyright(file, where):
    """Return the same of basedpyright, which is pyright with its own Node.js."""
    installed("basedpyright")
    # The files only look up some attributes, private ones too.
    options = {"reportUnusedExpression": "none", "reportPrivateUsage": "none", "typeCheckingMode": "strict"}
    project = where / "pyrightconfig.json"
    project.write_text(json.dumps({"include": [str(file)], **options}))
    command = [sys.executable, "-P", "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    command += ["--project", project]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    return {
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1): one["message"]
        for one in found["generalDiagnostics"]
        if one["severity"] == "error"
    }


def test_the_stubs_agree_with_the_core(tmp_path):
    installed("mypy")
    modules = ["hwheel_core._core", "hwheel_core.errors", "hwheel_core.snapshot", "hwheel_core.stats"]
    allowlist = HERE / "stubtest_allowlist.txt"
    command = [sys.executable, "-P", "-m", "mypy.stubtest", "--concise", "--allowlist", allowlist, *modules]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


CHECKERS = [mypy, pyright]


@pytest.mark.parametrize("check", CHECKERS)
def test_every_mistake_is_found_and_nothing_else(check, tmp_path):
    marked = {
        (MISTAKES.name, number)
        for number, line in enumerate(MISTAKES.read_text().splitlines(), 1)
        if line.endswith("# error")
    }
    found = check(MISTAKES, tmp_path)
    assert len(marked) > 50
    assert marked - found.keys() == set(), "not found"
    assert {place: found[place] for place in found.keys() - marked} == {}


@pytest.mark.parametrize("check", CHECKERS)
def test_correct_uses_are_accepted(check, tmp_path):
    assert check(RIGHT, tmp_path) == {}
