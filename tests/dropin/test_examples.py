"""The example programs of the drop-ins run, also with the standard library where they have an option for it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*command):
    done = subprocess.run(
        [sys.executable, "-P", EXAMPLES / command[0], *command[1:]], capture_output=True, text=True, timeout=200
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("options", [[], ["--standard", "--devices", "200"]], ids=["hwheel", "standard"])
def test_watchdogs(options):
    printed = run("watchdogs.py", *options)
    count = 2 if options else 20
    assert f"silent: those {count} that were\n" in printed
    threads = int(re.search(r"threads: (\d+)", printed)[1])
    assert threads >= 200 if options else threads < 20


def test_deliveries():
    printed = run("deliveries.py")
    assert re.fullmatch(r"9998 arrived, [\d.]+ us for each cancel; late: \[17, 4711\]\n", printed)
