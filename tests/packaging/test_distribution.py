"""What pip installs, and what it does not."""

import subprocess
import sys
from importlib.metadata import distribution, requires
from pathlib import Path

import hwheel
import hwheel_core

ROOT = Path(__file__).parents[2]


def installed_files():
    return {str(file) for file in distribution("hwheel").files if "__pycache__" not in str(file)}


def test_the_suite_runs_on_the_installed_package_and_not_on_the_tree():
    for package in (hwheel, hwheel_core):
        assert (ROOT / "src") not in Path(package.__file__).parents
        assert (ROOT / "hwheel_core") not in Path(package.__file__).parents


def test_the_package_brings_its_types():
    assert {"hwheel/py.typed", "hwheel_core/py.typed", "hwheel_core/_core.pyi"} <= installed_files()


def test_every_python_file_of_the_package_is_installed_and_no_source_of_the_core():
    python = {str(file.relative_to(ROOT / "src")) for file in (ROOT / "src").rglob("*.py")}
    assert python <= installed_files()
    for_extensions = {"hwheel/c_api.pxd", "hwheel_core/c_api/hwheel.h"}
    assert {file for file in installed_files() if file.endswith((".pyx", ".pxi", ".pxd", ".c", ".h"))} == for_extensions


def test_nothing_is_needed_at_run_time():
    assert [need for need in requires("hwheel") if "extra ==" not in need] == []


def test_importing_the_package_loads_no_third_party_module():
    script = (
        "import sys, site; before = set(sys.modules); import hwheel; "
        "paths = [getattr(sys.modules[m], '__file__', None) or '' for m in set(sys.modules) - before]; "
        "print([p for p in paths if 'site-packages' in p and '/hwheel' not in p])"
    )
    assert (
        subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


def test_the_uncompiled_core_says_what_to_do():
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import hwheel_core"
    done = subprocess.run([sys.executable, "-P", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is not compiled" in done.stderr
