"""Forks and exits under load: a few of what `make forks` does."""

import os
from pathlib import Path

import pytest

from programs import output_of, run_python
from sampling import SEED, scaled

pytest.importorskip("numpy")
pytest.importorskip("rich")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
SOAK = Path(__file__).parents[2] / "tools" / "soak"
PROGRAM = """
import sys
sys.path.insert(0, "{soak}")
import ends
{body}
"""


def test_forks_and_exits_under_load():
    """Each of nine ends of a child, from three places; and some exits, others with each seed."""
    counts = ["--forks", scaled(27), "--exits", scaled(15)]
    out = output_of("-P", SOAK, "--seed", SEED or 1, "ends", *counts, patience_s=100 + 3 * (counts[1] + counts[3]))
    assert "nothing found" in out and '"wrong": {}' in out and "wrong {}" in out, out


def test_a_child_that_runs_what_was_dropped_or_hangs_is_found():
    body = """
import forks, json, os, signal, subprocess
forks.PATIENCE_S = 1
forks.ENDS = {"hangs": (lambda world: signal.pause(), 0), "wrong": (lambda world: os._exit(4), 0)}
sys.argv[1:] = ["2", "1"]
forks.main()
"""
    ended = run_python("-P", "-W", "ignore::DeprecationWarning", "-c", PROGRAM.format(soak=SOAK, body=body))
    assert '"hangs: hangs": 1' in ended.out and '"wrong: status 4": 1' in ended.out, ended
    assert "most recent call first" in ended.err, "where it hangs"


def test_an_exit_that_hangs_or_has_another_status_is_found(tmp_path):
    body = """
ends.PATIENCE_S = 3
assert ends.exit_of(("pending", "own", "return"), 0) == ""
ends.ENDINGS["return"] = (int, 7)
assert ends.exit_of(("pending", "own", "return"), 0).startswith("ends with 0")
ends.HERE = ends.Path(sys.argv[1])
(ends.HERE / "exits.py").write_text("import threading\\nthreading.Event().wait()")
said = ends.exit_of(("pending", "own", "return"), 0)
assert said.startswith("hangs") and "threading.py" in said, said
"""
    assert output_of("-P", "-c", PROGRAM.format(soak=SOAK, body=body), tmp_path) == ""
