"""examples/push_campaign runs to its end, and its report detects each fault."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from local_spark import needs_java

CAMPAIGN = Path(__file__).parents[2] / "examples" / "push_campaign"
PATIENCE_S = 1800


@pytest.fixture
def modules(monkeypatch):
    """modules(name): a module of the example. Its generic name is unloaded after the test."""
    monkeypatch.syspath_prepend(str(CAMPAIGN))
    names = ("plan", "feed", "job", "account", "show", "picture")
    yield lambda name: __import__(name)
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.slow
@needs_java
def test_small_campaign(tmp_path):
    command = [sys.executable, CAMPAIGN / "run.py", "--coupons", "5000", "--seconds", "6", "--keep", "kept"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    lines = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines() if line[-1:].isdigit())
    assert lines["coupons planned"] == "5,000"
    for fault in ("lost", "sent twice", "sent early", "sent although cancelled", "out of order for a user"):
        assert lines[fault] == "0"
    assert (tmp_path / "kept" / "campaign" / "state").exists()


def test_plan_is_reproducible_and_has_every_kind_of_fault(modules):
    plan = modules("plan")
    day = plan.make_plan(20_000, 20.0, 7)
    again = plan.make_plan(20_000, 20.0, 7)
    for name in ("user", "due_ms", "cancelled", "at_ms", "coupon", "kind"):
        assert np.array_equal(getattr(day, name), getattr(again, name))
    assert not np.array_equal(day.due_ms, plan.make_plan(20_000, 20.0, 8).due_ms)
    assert (np.diff(day.at_ms) >= 0).all() and day.at_ms[0] == plan.NIGHT_BEFORE
    assert 0 <= day.due_ms.min() and day.due_ms.max() < 20_000
    counts = {kind: day.count(kind) for kind in plan.Kind}
    assert min(counts.values()) > 0 and plan.repeated(day).sum() > 300
    first_message = np.full(20_000, 2**60)
    messages = day.kind == plan.Kind.MESSAGE
    np.minimum.at(first_message, day.coupon[messages], day.at_ms[messages])
    assert (first_message <= np.maximum(day.due_ms - plan.MARGIN_MS, plan.NIGHT_BEFORE)).all(), (
        "messages arrive before their margin"
    )
    assert np.bincount(day.user).max() > 20 * np.bincount(day.user).mean(), "some users have many messages"


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_display(modules, terminal):
    plan, show = modules("plan"), modules("show")
    day = plan.make_plan(3000, 10.0, 1)
    feeder = SimpleNamespace(plan=day, start_ms=1000 * time.time() - 5000, done=len(day.kind))
    out, dead = SimpleNamespace(lines=2000, lag_ms=1234), SimpleNamespace(lines=5)
    file = io.StringIO()
    with show.Progress(feeder, out, dead, 2900, Console(file=file, force_terminal=terminal, width=120)) as progress:
        progress.look()
    pending = 3000 - int(day.cancelled.sum()) - 2000
    assert f"pushed     2,000  pending {pending:>9,}" in file.getvalue()
    assert "lag  1.2 s  malformed 5" in file.getvalue() and ("━" in file.getvalue()) == terminal


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda sent: sent[1:], "lost"),
        (lambda sent: [*sent, sent[-1]], "sent twice"),
        (lambda sent: [(sent[0][0], sent[0][1] - 3_600_000), *sent[1:]], "sent early"),
        (lambda sent: sent[::-1], "out of order for a user"),
        (None, "sent although cancelled"),
    ],
)
def test_report_detects_each_fault(modules, change, fault):
    plan, account = modules("plan"), modules("account")
    day = plan.make_plan(3000, 10.0, 1)
    start_ms = 10**12
    feeder = SimpleNamespace(plan=day, start_ms=start_ms, landed_ms=start_ms + day.at_ms)
    order = np.argsort(day.due_ms, kind="stable")
    sent = [(coupon, day.due_ms[coupon] + 100) for coupon in order if not day.cancelled[coupon]]
    letters = [reason for kind, reason in account.REASONS.items() for _ in range(day.count(kind))]

    def account_of(rows):
        coupons, sent_ms = (np.array(column) for column in zip(*rows, strict=True))
        table = account.Sent(coupons, start_ms + day.due_ms[coupons], start_ms + sent_ms)
        return account.make_account(feeder, table, 0, letters).faults

    assert not any(account_of(sent).values())
    taken = int(np.flatnonzero(day.cancelled)[0])
    with_taken = sorted([*sent, (taken, day.due_ms[taken] + 100)], key=lambda row: row[1])
    faults = account_of(change(sent) if change else with_taken)
    assert [name for name, count in faults.items() if count] == [fault]
