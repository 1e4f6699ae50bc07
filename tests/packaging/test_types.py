"""What type checkers say of uses of hwheel, right and wrong: they must find each mistake, and nothing else.

They are run on the installed package, as a user's are. `make check` installs them; where they are not, this is skipped.
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
    """The lines of the file in which mypy finds an error, with what it says."""
    installed("mypy")
    # Outside of the tree, where no configuration is, and no source that could be taken for the package.
    command = [
        sys.executable,
        "-P",
        "-m",
        "mypy",
        "--strict",
        "--output",
        "json",
        "--cache-dir",
        where / "cache",
        "--warn-unused-ignores",
        "--config-file",
        "",
        "--python-executable",
        sys.executable,
        file,
    ]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(Path(one["file"]).name, one["line"]): one["message"] for one in found if one["severity"] == "error"}


def pyright(file, where):
    """The same of pyright, which needs no Node.js beside itself under the name of basedpyright."""
    installed("basedpyright")
    (where / "pyrightconfig.json").write_text(
        json.dumps(
            {
                "include": [str(file)],
                "typeCheckingMode": "strict",
                # A line that is only looked up is no use of it, and what is underscored is looked up here on purpose.
                "reportUnusedExpression": "none",
                "reportPrivateUsage": "none",
            }
        )
    )
    command = [
        sys.executable,
        "-P",
        "-m",
        "basedpyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        "--project",
        where / "pyrightconfig.json",
    ]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    return {
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1): one["message"]
        for one in found["generalDiagnostics"]
        if one["severity"] == "error"
    }


def test_the_stubs_of_the_core_say_what_is_there(tmp_path):
    installed("mypy")
    modules = ["hwheel_core._core", "hwheel_core.errors", "hwheel_core.snapshot", "hwheel_core.stats"]
    unsaid = HERE / "stubtest_allowlist.txt"
    command = [sys.executable, "-P", "-m", "mypy.stubtest", "--concise", "--allowlist", unsaid, *modules]
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
def test_no_right_use_is_refused(check, tmp_path):
    assert check(RIGHT, tmp_path) == {}
