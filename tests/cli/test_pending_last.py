"""`hwheel pending --last`: the last count of a job, without Spark."""

import json
import subprocess
import sys
import time

import pytest

from hwheel.cli.deliver.counts import LAST_COUNT
from hwheel.cli.main import main


@pytest.fixture
def counted(tmp_path):
    """Return a checkpoint with a count that is ten seconds old, and the count."""
    last = {"at": int(time.time() * 1000) - 10_000, "rows": 1500, "by_due": {"due already": 0, "within a day": 1500}}
    (tmp_path / LAST_COUNT).write_text(json.dumps(last))
    return tmp_path, last


def test_the_last_count_is_shown(counted, capsys):
    checkpoint, last = counted
    assert main(["pending", "--checkpoint", str(checkpoint), "--last"]) == 0
    first, bar = capsys.readouterr().out.splitlines()
    assert first.startswith("1,500 rows pending at 20") and first.endswith(" s ago")
    assert bar.split() == ["within", "a", "day", "1,500", "#" * 40]
    assert main(["pending", "--checkpoint", checkpoint.as_uri(), "--last", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == last


def test_the_last_count_needs_neither_spark_nor_java(counted):
    program = "import sys; from hwheel.cli.main import main; main(sys.argv[1:]); print('pyspark' in sys.modules)"
    command = [sys.executable, "-P", "-c", program, "pending", "--checkpoint", counted[0], "--last"]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": ""})
    assert done.stdout.splitlines()[-1:] == ["False"], done.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (None, [], "does not exist"),
        ("{", [], "cannot be read"),
        ("[]", [], "cannot be read"),
        ('{"at": 1, "rows": 1, "by_due": 1}', [], "cannot be read"),
        ('{"at": 1, "rows": Infinity, "by_due": {}}', [], "cannot be read"),
        ('{"at": 1, "rows": NaN, "by_due": {}}', [], "cannot be read"),
        ('{"at": 1%s, "rows": 1, "by_due": {}}' % ("0" * 40), [], "cannot be read"),
        ('{"at": 1, "rows": 1, "by_due": {"later": -1, "within a day": 0}}', [], "a count is below 0"),
        ("[" * 100_000, [], "cannot be read"),
        ("{}", ["--id", "m1"], "--last counts all messages"),
        ("{}", ["--watch", "10s"], "--last counts all messages"),
    ],
)
def test_missing_or_damaged_counts_and_other_options_are_refused(text, arguments, message, tmp_path, capsys):
    if text is not None:
        (tmp_path / LAST_COUNT).write_text(text)
    assert main(["pending", "--checkpoint", str(tmp_path), "--last", *arguments]) == 2
    assert message in capsys.readouterr().err
