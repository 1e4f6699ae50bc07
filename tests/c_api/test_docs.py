"""The examples of docs/c_api.md compile and print the shown output. The header compiles with several compilers."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from extensions import skip_unless_compiler
from page_examples import examples_of
from programs import run_python

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/c_api.md"


def files():
    """Return {file name: text} of the page's blocks that begin with a file name."""
    blocks = re.findall(r"```(?:c|cython|python|toml)\n((?s:.*?))```", PAGE.read_text())
    return {re.search(r"[/#]\*? (\w+\.\w+)$|[/#]\*? (\w+\.c) ", block, re.MULTILINE): block for block in blocks}


def test_package_of_the_page_builds_and_prints_the_shown_output(tmp_path):
    found = {match[1] or match[2]: text for match, text in files().items()}
    assert [*found] == ["pyproject.toml", "setup.py", "sessions.c", "serve.py", "retries.pyx", "retry.py"]
    for name, text in found.items():
        (tmp_path / name).write_text(text)
    skip_unless_compiler(tmp_path / "retries.pyx")
    project = tomllib.loads(found["pyproject.toml"])
    assert {"setuptools", "Cython", "hwheel"} == {
        re.match(r"\w+", need)[0] for need in project["build-system"]["requires"]
    }
    built = run_python("setup.py", "-q", "build_ext", "--inplace", cwd=tmp_path, patience_s=300)
    assert built.status == 0, built.err
    shown = {example.file: example.shown for example in examples_of(PAGE)}
    for name in ("serve.py", "retry.py"):
        done = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, timeout=100)
        assert (done.stdout, done.stderr) == (shown[name], "")


def test_page_and_pxd_files_have_every_function_of_the_header():
    header = (ROOT / "hwheel_core/c_api/hwheel.h").read_text()
    functions = re.findall(r"\(\*(\w+)\)\(", header.partition("typedef struct hwheel_api")[2])
    assert len(functions) == 12
    for where in ("docs/c_api.md", "src/hwheel/c_api.pxd", "hwheel_core/c_api/structs.pxd"):
        text = (ROOT / where).read_text()
        found = re.findall(r"\(\*(\w+)\)\(", text) or re.findall(r"`(\w+)\(", text)
        assert [name for name in functions if name not in found] == [], where
        if where.endswith(".pxd"):
            assert [name for name in found if name != "hwheel_callback"] == functions, where
    page = PAGE.read_text()
    for name in {*re.findall(r"\bHWHEEL_\w+|\bhwheel_\w+\(", page)}:
        assert name in header or name in ("hwheel_wheel", "hwheel_entry"), name


PLAIN = """
#include "hwheel.h"
int main(void) { hwheel_entry entry; hwheel_entry_init(&entry, 0, 0); return hwheel_is_pending(&entry); }
"""


COMPILERS = ["cc -std=c99", "c++ -std=c++11", "clang -std=c99", "x86_64-w64-mingw32-gcc -std=c11"]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_header_compiles_without_python_and_warnings(compiler, tmp_path):
    command, standard = compiler.split()
    if not shutil.which(command):
        pytest.skip(f"needs {command}")
    source = tmp_path / ("plain.cpp" if "++" in command else "plain.c")
    source.write_text(PLAIN)
    options = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", str(ROOT / "hwheel_core/c_api")]
    done = subprocess.run([command, standard, *options, str(source)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
