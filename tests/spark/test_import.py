"""Importing hwheel.spark: starts nothing, and says what is missing."""

import importlib.util
import subprocess
import sys

import pytest


def run(code):
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)


def test_no_session_is_made_at_import():
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("hwheel.spark is not tested at all, for pyspark is not installed: pip install 'hwheel[spark]'")
    told = run("import hwheel.spark; from pyspark import SparkContext; print(SparkContext._active_spark_context)")
    assert told.stdout == "None\n", told.stderr


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow", "pandas", "google.protobuf"])
def test_what_is_missing_is_said(missing):
    told = run(f"import sys; sys.modules[{missing!r}] = None\nimport hwheel.spark")
    assert "pip install 'hwheel[spark]'" in told.stderr.splitlines()[-1]


def test_the_command_says_it_as_well():
    told = run(
        "import sys; sys.modules['pyspark'] = None\nfrom hwheel.cli.main import main\n"
        "sys.exit(main(['pending', '--checkpoint', 'x']))"
    )
    assert told.returncode == 2
    assert told.stderr.count("\n") == 1 and "pip install 'hwheel[spark]'" in told.stderr
