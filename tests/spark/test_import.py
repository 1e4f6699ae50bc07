"""Importing hwheel.spark starts no Spark, and reports missing packages."""

import importlib.util
import subprocess
import sys

import pytest


def run(code):
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)


def test_import_starts_no_session():
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("all tests of hwheel.spark are left out: pyspark is not installed: pip install 'hwheel[spark]'")
    done = run("import hwheel.spark; from pyspark import SparkContext; print(SparkContext._active_spark_context)")
    assert done.stdout == "None\n", done.stderr


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow", "pandas", "google.protobuf"])
def test_error_of_a_missing_package_names_the_extra(missing):
    done = run(f"import sys; sys.modules[{missing!r}] = None\nimport hwheel.spark")
    assert "pip install 'hwheel[spark]'" in done.stderr.splitlines()[-1]


def test_command_reports_a_missing_package_in_one_line():
    done = run(
        "import sys; sys.modules['pyspark'] = None\nfrom hwheel.cli.main import main\n"
        "sys.exit(main(['pending', '--checkpoint', 'x']))"
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "pip install 'hwheel[spark]'" in done.stderr
