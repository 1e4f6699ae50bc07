"""Without an extra, imports and commands fail with one sentence that names the missing package and the extra."""

import ast
import json
import re
import subprocess
import sys
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path

import pytest

import hwheel
from hwheel.extras import EXTRAS

EVERYTHING = sorted({module for modules in EXTRAS.values() for module in modules})
SENTENCE = r"{} needs [\w ,]+, which (is|are) not installed: pip install 'hwheel\[{}\]'"
EXTRA_OF = {"metrics": "metrics", "recorder": "recorder", "replay": "replay", "logs": "(recorder|tune)", "tune": "tune",
            "lookup": "spark", "spark": "spark", "twisted": "twisted"}  # fmt: skip
COMMANDS = {
    "demo": ("cli", []),
    "trace": ("cli", []),
    "tune": ("tune", ["log"]),
    "tune --json": ("tune", ["log", "--json"]),
    "tune --out": ("tune", ["log", "--json", "--out", "report"]),
    "tune --spark": ("tune,spark", ["log", "--spark", "--json"]),
    "deliver": ("spark", ["--from", "a", "--to", "b", "--checkpoint", "c"]),
    "pending": ("spark", ["--checkpoint", "c"]),
    "letters": ("spark", ["--from", "c"]),
    "move": ("spark", ["--checkpoint", "c", "--to", "t"]),
    "top": ("cli", ["9000"]),
}

# None in sys.modules makes an import fail as if the module were not installed.
HIDE = "import json, sys\nfor name in json.loads(sys.argv.pop(1)): sys.modules[name] = None\n"
# One process tries all environments, because importing the installed packages takes seconds.
IMPORTS = """
import importlib, pkgutil


def errors_without(missing):
    dots = tuple(f"{one}." for one in missing)
    hidden = {name: module for name, module in sys.modules.items() if f"{name}.".startswith(dots)}
    sys.modules.update(dict.fromkeys([*missing, *hidden]))
    for name in [name for name in sys.modules if name.split(".")[0] == "hwheel"]:
        del sys.modules[name]
    import hwheel
    errors = {}
    for found in pkgutil.walk_packages(hwheel.__path__, "hwheel.", onerror=lambda name: None):
        if found.name.startswith("hwheel.cli."):
            continue    # a test below runs the commands
        try:
            importlib.import_module(found.name)
        except ImportError as error:
            errors[found.name] = [type(error).__name__, str(error), isinstance(error, hwheel.HwheelError)]
        else:
            errors[found.name] = None
    for name in missing:
        del sys.modules[name]
    sys.modules.update(hidden)
    return errors


print(json.dumps([errors_without(missing) for missing in json.loads(sys.argv[1])]))
"""
COMMAND = "from hwheel.cli.main import main\nsys.exit(main(sys.argv[1:]))"


def python(code, *arguments, without, cwd):
    command = [sys.executable, "-P", "-W", "ignore", "-c", HIDE + code, json.dumps(without), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=100)


def every_module():
    """Return every module by its file, because a package that cannot be imported hides its modules."""
    source = Path(hwheel.__file__).parent
    names = {".".join(file.relative_to(source).with_suffix("").parts) for file in source.rglob("*.py")}
    return {f"hwheel.{name.removesuffix('.__init__')}" for name in names - {"__init__"}}


def imported_without(*environments, cwd):
    """Return for each list of missing modules {module of hwheel: its import error, or None}."""
    done = python(IMPORTS, json.dumps(environments), without=[], cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_every_import_names_the_missing_extra(tmp_path):
    (errors,) = imported_without(EVERYTHING, cwd=tmp_path)
    refused = {name: error for name, error in errors.items() if error}
    assert {name.split(".")[1] for name in refused} == EXTRA_OF.keys()
    for name, (kind, sentence, is_ours) in refused.items():
        room = name.split(".")[1]
        assert (kind, is_ours) == ("MissingExtraError", True)
        assert re.fullmatch(SENTENCE.format(rf"hwheel\.{room}(\.\w+)*", EXTRA_OF[room]), sentence), (name, sentence)
    # Only modules of packages that could not be imported were not tried.
    untried = {name for name in every_module() - errors.keys() if not name.startswith("hwheel.cli.")}
    assert all(any(name.startswith(f"{package}.") for package in refused) for name in untried)


def test_every_import_names_the_missing_package(tmp_path):
    with_all, *errors = imported_without([], *([one] for one in EVERYTHING), cwd=tmp_path)
    refused = set()
    for missing, without in zip(EVERYTHING, errors, strict=True):
        (called,) = {modules[missing] for modules in EXTRAS.values() if missing in modules}
        for name, error in without.items():
            if error and not with_all.get(name):  # not installed here at all
                refused.add(missing)
                assert error[0] == "MissingExtraError", (name, error)
                assert f" needs {called}, which is not installed: " in error[1], (name, error)
    here = {one for one in ("numpy", "pyarrow", "prometheus_client") if find_spec(one)}
    assert here <= refused and here


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_names_the_missing_extra_in_one_line(command, tmp_path):
    extra, arguments = COMMANDS[command]
    name = command.split()[0]
    done = python(COMMAND, name, *arguments, without=EVERYTHING, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(SENTENCE.format(f"hwheel {name}", extra) + "\n", done.stderr), done.stderr


def test_every_command_was_tried():
    from hwheel.cli.main import make_parser

    names = {name for action in make_parser()._actions for name in getattr(action, "choices", None) or ()}
    assert names - {"run"} == {command.split()[0] for command in COMMANDS}  # `run` needs no extra


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["run", "-m", "hwheel", "--version"], ["trace", "--json"], ["tune", "--help"]],
)
def test_commands_that_need_no_extra_work_without_any(arguments, tmp_path):
    done = python(COMMAND, *arguments, without=EVERYTHING, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "hwheel" in done.stdout or json.loads(done.stdout)


def test_an_import_error_inside_an_installed_package_is_not_hidden(tmp_path):
    (tmp_path / "numpy.py").write_text("import a_module_that_numpy_lost")
    (tmp_path / "rich.py").write_text("raise ImportError('rich is broken')")
    path = f"sys.path.insert(0, {str(tmp_path)!r})\n"
    lost = python(path + "import hwheel.replay", without=[], cwd=tmp_path)
    assert lost.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'a_module_that_numpy_lost'"
    broken = python(path + COMMAND, "demo", without=[], cwd=tmp_path)
    assert broken.stderr.splitlines()[0] == "hwheel demo: ImportError: rich is broken"


def test_the_extras_match_the_metadata():
    found = {}
    for need in requires("hwheel"):
        distribution, _, extra = need.partition("extra == ")
        if extra:
            found.setdefault(ast.literal_eval(extra), set()).add(re.match(r"[\w-]+", distribution)[0].lower())
    assert {extra: {name.lower() for name in modules.values()} for extra, modules in EXTRAS.items()} == found
