"""The benchmarks run at the smallest size, and every installed implementation does the same work."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


def run(*command, **options):
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Return (printed output, JSON) of a run of all benchmarks at the smallest size."""
    out = tmp_path_factory.mktemp("bench")
    done = run("-P", BENCH / "report.py", "--size", "tiny", "--out", out)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((out / "bench.json").read_text())


@pytest.fixture
def bench_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))


def test_all_implementations_run_the_same_timers(report):
    _, result = report
    checksums = {}
    for cell in result["operations"]["cells"]:
        checksums.setdefault((cell["pending"], "bulk" in cell["operation"]), set()).add(cell["checksum"])
    assert len(checksums) == 2 * len(result["settings"]["sizes"])
    assert all(len(found) == 1 for found in checksums.values()), checksums


def test_every_supported_operation_is_measured(report, bench_on_path):
    from implementations import available
    from implementations.base import BULK, SINGLE

    _, result = report
    measured = {
        (cell["implementation"], cell["operation"], cell["collector"]) for cell in result["operations"]["cells"]
    }
    for make in available()[0]:
        wanted = {(make.name, one, collector) for one in SINGLE for collector in (False, True) if one not in make.lacks}
        wanted |= {(make.name, one, False) for one in BULK if one not in make.lacks}
        assert wanted <= measured, make


def test_cancelled_timers_are_removed_between_bursts(bench_on_path):
    """The cost of pairs includes the removal of cancelled timers, which are at most half of all timers plus a burst."""
    from core.trials import SingleLife, inputs_of
    from implementations.base import BURST
    from implementations.standard import Asyncio, Heap

    for make, entries in ((Asyncio, lambda timer: timer.loop._scheduled), (Heap, lambda timer: timer.heap)):
        life = SingleLife(make, inputs_of(2 * BURST))
        life.add()
        life.timer.drive(life.pairs())
        assert life.counts["add + cancel"] == 5 * BURST
        assert 2 * BURST <= len(entries(life.timer)) <= 5 * BURST + 1
        life.close()


def test_every_part_of_the_report_has_its_figures(report):
    shown, result = report
    assert {row["implementation"] for row in result["memory"]} >= {"hwheel", "hwheel bulk", "asyncio", "heapq"}
    assert all(row["allocated_bytes"] > 0 for row in result["memory"])
    assert result["pause"]["during_us"]["count"] > 0
    assert len(result["all_entries"]["rows"]) == 32
    assert 20 in [row["wheel_size"] for row in result["wheel_sizes"]]
    settings = result["settings"]
    for row in result["lateness"]:
        assert row["late_ms"]["count"] == row["rate"] * settings["lateness_s"]
        assert len(row["p99_ms"]) == settings["lateness_rounds"]
    slacks = [row["slack_s"] for row in result["slack"]["rows"]]
    assert slacks[0] == 0 < slacks[-1] and all(row["wakeups_a_second"] >= 0 for row in result["slack"]["rows"])
    for part, name in (("containers", "hwheel.ExpiringDict"), ("queues", "hwheel.DelayQueue")):
        ours = [cell for cell in result[part]["cells"] if cell["implementation"] == name]
        assert len(ours) == 4 and all(min(cell["ns"]) > 0 for cell in ours)
        assert result[part]["bytes"][name] > 0
    assert len(result["containers"]["expiry"]["hwheel.ExpiringDict"]) == settings["rounds"]
    rows = result["threads"]["rows"]
    assert len(rows) == 5 and all(min(row["times"]) > 0 for row in rows.values())
    assert {len(row["times"]) for row in rows.values()} == {settings["rounds"]}
    titles = ("headlines", "memory", "how long one add takes", "wheel sizes", "lateness", "dicts that forget")
    titles += (
        "the longest time for which",
        "queues whose items come out",
        "idle connections",
        "pairs of add and cancel each",
    )
    assert [title for title in titles if title not in shown] == []


def test_the_report_has_the_machine_and_every_round(report):
    _, result = report
    assert {"processor", "python", "commit", "load_average", "hwheel"} <= result["machine"].keys()
    assert all(len(cell["ns"]) == result["settings"]["rounds"] for cell in result["operations"]["cells"])


def test_a_library_that_is_not_installed_is_left_out(report, tmp_path):
    (tmp_path / "uvloop.py").write_text("raise ImportError('No module named uvloop')")
    script = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(BENCH)!r}]; "
        "from implementations import available; made, notes = available(); print([m.name for m in made]); print(notes)"
    )
    done = run("-P", "-c", script)
    assert done.returncode == 0, done.stderr
    names, notes = done.stdout.splitlines()
    assert "'uvloop'" not in names and "'asyncio'" in names
    assert "uvloop is left out" in notes and "pip install uvloop" in notes


def test_the_report_runs_without_matplotlib(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('No module named matplotlib')")
    command = ("-P", BENCH / "report.py", "--size", "tiny", "--only", "slack", "--out", tmp_path / "out")
    done = run(*command, env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert "pip install matplotlib" in done.stdout
    assert json.loads((tmp_path / "out" / "bench.json").read_text())["slack"]["rows"]


def test_an_implementation_that_does_different_work_is_detected(bench_on_path):
    from core.operations import Trial, run_trial
    from core.trials import BulkLife, SingleLife, WrongWork
    from implementations.standard import Heap

    class Forgetful(Heap):
        def expire(self):
            self.heap.pop()
            super().expire()

    class Hasty(Heap):
        def cancel(self, handle):
            pass

    class Disorderly(Heap):
        def add_many(self, delays_ms, fired):
            return super().add_many(delays_ms[::-1], fired)

    for make, life in ((Forgetful, SingleLife), (Hasty, SingleLife), (Disorderly, BulkLife)):
        with pytest.raises(WrongWork):
            run_trial(Trial(make, life, 100, collector=False))


def test_a_server_on_each_loop_answers_all_its_requests():
    done = run("-P", BENCH / "dropin" / "server.py", *"--connections 5 --rate 50 --seconds 0.2 --rounds 1".split())
    assert done.returncode == 0, done.stderr
    assert {"asyncio", "hwheel over asyncio"} <= {line[:22].strip() for line in done.stdout.splitlines()}


def test_no_sleep_on_a_wheel_loop_ends_early_on_another_clock():
    done = run("-P", BENCH / "dropin" / "early.py", "--sleeps", "3000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hwheel over asyncio  3,000 sleeps, 0 early" in done.stdout


def test_every_client_with_timeouts_is_measured():
    for name in ("aiohttp", "asyncpg", "redis", "websockets", "anyio", "httpx"):
        pytest.importorskip(name)
    done = run("-P", BENCH / "dropin" / "libraries.py", "--rounds", "1", "--requests", "20")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\S.* -?[\d.]+ +-?[\d.]+$", done.stdout, re.MULTILINE)) == 7
