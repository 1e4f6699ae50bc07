"""`hwheel demo`: its parts, and the whole command with small workloads."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from hwheel.cli.demo import drive, engines
from hwheel.cli.demo.command import figures_of, percentile_text
from hwheel.cli.demo.drive import Request, Run, Workload, account, generate
from hwheel.cli.demo.engines import AsyncioEngine, SchedEngine, ThreadsEngine, WheelEngine
from hwheel.cli.main import main
from programs import PATIENCE_S
from servers import live_snapshot

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = ["--count", "500", "--rate", "1000", "--timeout-ms", "200", "500", "--no-peers"]
ENGINES = {"wheel": partial(WheelEngine, 1, 256), "asyncio": AsyncioEngine, "sched": SchedEngine}


def generated(count, rate, cancel_ratio, timeout_ms, seed=0):
    return generate(
        SimpleNamespace(count=count, rate=rate, cancel_ratio=cancel_ratio, timeout_ms=timeout_ms, seed=seed)
    )


def driven(make_engine, requests, report=lambda run: None):
    with closing(make_engine()) as engine:
        return Run(engine, Workload(requests), report).drive()


# --- workloads --------------------------------------------------------------------------------------------------------


def test_a_generated_workload_has_a_steady_rate_and_an_exact_share_of_completions():
    requests = generated(1000, 100.0, 0.95, (1000.0, 10_000.0))
    assert [request.start_ms for request in requests] == [index * 10.0 for index in range(1000)]
    assert sum(request.end_ms is not None for request in requests) == 950
    for start_ms, timeout_ms, end_ms in requests:
        assert 1000 <= timeout_ms <= 10_000
        assert end_ms is None or start_ms <= end_ms <= start_ms + timeout_ms * 0.9 + 1e-6
    first, again, other = (generated(50, 10.0, 0.5, (1.0, 2.0), seed) for seed in (7, 7, 8))
    assert first == again != other


def test_the_events_of_a_workload_are_in_order_of_time():
    requests = [Request(0, 2000, None), Request(250, 50, 250), Request(500, 100, 600)]
    workload = Workload(requests)
    assert workload.times_s == [0.0, 0.25, 0.25, 0.5, 0.6]
    assert workload.events == [(0, False), (1, False), (1, True), (2, False), (2, True)]
    assert (workload.timeouts_s, workload.seconds) == ([2.0, 0.05, 0.1], 2.0)
    assert Workload(requests, speed=4).seconds == 0.5


# --- engines ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make_engine", ENGINES.values(), ids=ENGINES)
def test_every_timer_of_a_small_workload_is_accounted_for(make_engine):
    reports = []

    def report(run):
        reports.append((run.pending, len(run.cancels), len(run.callbacks)))

    run = driven(make_engine, generated(200, 1000.0, 0.5, (200.0, 300.0)), report)
    found = account(run.deadlines, run.callbacks, run.cancels)
    assert (found.lost, found.doubled) == (0, 0)
    assert len(run.callbacks) >= 100  # more only if the machine was too slow to cancel in time
    assert reports[-1] == (0, len(run.cancels), len(run.callbacks))
    assert run.adding_s > 0 and run.cancelling_s > 0 and run.cancel_calls == 100
    assert 0 < run.peak_pending <= 200


def test_threads_run_and_end():
    with closing(ThreadsEngine()) as engine:
        run = Run(engine, Workload(generated(20, 200.0, 0.5, (100.0, 200.0))), lambda run: None).drive()
    assert len(run.callbacks) >= 10
    assert not any(thread.is_alive() for thread in engine.threads)


@pytest.mark.parametrize("make_engine", ENGINES.values(), ids=ENGINES)
def test_a_completion_after_the_timeout_cancels_nothing(make_engine):
    run = driven(make_engine, [Request(0, 20, 300), Request(0, 5_000, 10)])
    assert [index for index, _ in run.callbacks] == [0]
    assert run.cancels == [1]


def test_a_driver_that_has_fallen_behind_adds_before_it_cancels():
    run = driven(ENGINES["wheel"], [Request(0, 30_000, 5 - index / 1000) for index in range(5_000)])
    assert run.callbacks == [] and sorted(run.cancels) == [*range(5_000)]


def test_close_drops_pending_timers():
    runs = []
    for make_engine in [*ENGINES.values(), ThreadsEngine]:
        engine = make_engine()
        engine.call_at(time.monotonic() + 0.05, runs.append, 0)
        engine.close()
    time.sleep(0.1)
    assert runs == []


# --- account and figures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deadlines", "runs", "cancels", "found"),
    [
        ([1.0, 2.0, 3.0], [(0, 1.0), (2, 3.5)], [1], (0, 0, 0)),
        ([1.0, 2.0, 3.0], [(0, 1.5)], [2], (1, 0, 0)),
        ([1.0, 2.0], [(0, 1.5), (0, 1.6), (0, 1.7), (1, 2.5)], [], (0, 1, 0)),
        ([1.0], [(0, 1.5)], [0], (0, 1, 0)),
        ([1.0], [], [0, 0], (0, 1, 0)),
        ([1.0, 2.0], [(0, 0.999999), (1, 2.0)], [], (0, 0, 1)),
    ],
    ids=["clean", "lost", "ran twice", "ran and cancelled", "cancelled twice", "early"],
)
def test_lost_doubled_and_early_timers_are_counted(deadlines, runs, cancels, found):
    assert account(deadlines, runs, cancels) == found


def test_percentiles_are_by_nearest_rank():
    late_ms = [float(number) for number in range(1, 201)]
    assert [percentile_text(late_ms, percent) for percent in (50, 99, 100)] == ["100.00 ms", "198.00 ms", "200.00 ms"]


def test_a_figure_that_was_not_measured_is_a_dash():
    run = driven(ENGINES["wheel"], [Request(0, 1000, 0)])
    run.cancel_calls = 0
    assert figures_of(run)["lateness p50"] == figures_of(run)["cancels a second"] == "-"


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def wide_enough_for_a_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def demo(capsys, *options):
    status = main(["demo", *options])
    captured = capsys.readouterr()
    assert captured.err == ""
    return status, captured.out


def test_a_quick_demo_ends_with_a_table_and_a_clean_account(capsys):
    status, text = demo(capsys, *QUICK)
    assert status == 0
    for row in ("timers a second", "cancels a second", "expired", "lateness p99"):
        assert re.search(rf"^ {row} +[\d,.]+", text, re.MULTILINE), row
    assert "asyncio" not in text
    cancelled, ran = map(int, re.search(r"500 timers: (\d+) cancelled, (\d+) ran", text).groups())
    assert cancelled + ran == 500 and ran >= 25
    assert "lost 0, doubled 0, early 0" in text


@pytest.mark.parametrize("columns", [80, 120])
def test_peers_have_columns_and_the_table_fits_the_terminal(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    status, text = demo(capsys, *QUICK[:-1])
    assert status == 0
    assert re.search(r"^ +hwheel +asyncio +sched +threading.Timer", text, re.MULTILINE)
    assert re.search(r"^ timers +500 +500 +500 +250", text, re.MULTILINE), "an even sample of at most 300"
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text


def test_a_coarse_tick_is_never_early(capsys):
    status, text = demo(capsys, *QUICK, "--tick-ms", "100", "--wheel-size", "2", "--cancel-ratio", "0")
    assert status == 0
    assert "500 timers: 0 cancelled, 500 ran; lost 0, doubled 0, early 0" in text


@pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")
def test_live_serves_snapshots_while_the_demo_runs(short_path, eventually):
    path = str(short_path / "demo.sock")
    command = [sys.executable, "-P", "-m", "hwheel", "demo", *QUICK, "--live", path]
    snapshots = []

    def server_answers():
        try:
            snapshots.append(live_snapshot(path))
        except (FileNotFoundError, ConnectionRefusedError):  # before bind(), and between bind() and listen()
            return False
        return True

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            eventually(server_answers)
            out, err = running.communicate(timeout=PATIENCE_S)
        finally:
            running.kill()
    [snapshot] = snapshots
    assert snapshot["pid"] == running.pid and [timer["name"] for timer in snapshot["timers"]] in ([], ["demo"])
    assert (running.returncode, err) == (0, "") and "lost 0, doubled 0, early 0" in out
    assert not os.path.exists(path)


def test_a_bad_live_address_is_an_error_before_the_run(short_path, capsys):
    (short_path / "mine").touch()
    for address, reason in ((short_path / "mine", "not a socket"), ("/nowhere/a", "No such"), ("99999", "65535")):
        assert main(["demo", *QUICK, "--live", str(address)]) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.startswith("hwheel demo: --live: ") and reason in captured.err


class FaultyEngine(WheelEngine):
    """An engine that handles timer 3 wrongly."""

    def __init__(self, *settings):
        super().__init__(*settings)
        self.call_at = lambda when, callback, index: (self.fault if index == 3 else self.timer.call_at)(
            when, callback, index
        )


class Losing(FaultyEngine):
    def fault(self, when, callback, index):
        task = self.timer.call_at(when, callback, index)
        task.cancel()
        return task


class Doubling(FaultyEngine):
    def fault(self, when, callback, index):
        self.timer.call_at(when, callback, index)
        return self.timer.call_at(when, callback, index)


class Hurrying(FaultyEngine):
    def fault(self, when, callback, index):
        callback(index)  # at once, so that a busy machine cannot make it late


@pytest.mark.parametrize(
    ("engine", "text", "grace_s"),
    [
        (Losing, "lost 1, doubled 0, early 0", 2),
        (Doubling, "lost 0, doubled 1, early 0", 60),
        (Hurrying, "lost 0, doubled 0, early 1", 60),
    ],
)
def test_a_lost_doubled_or_early_timer_makes_the_exit_status_1(capsys, monkeypatch, engine, text, grace_s):
    monkeypatch.setattr(engines, "WheelEngine", engine)
    monkeypatch.setattr(drive, "GRACE_S", grace_s)
    status, out = demo(capsys, *QUICK, "--cancel-ratio", "0")
    assert status == 1
    assert text in out


def test_an_interrupt_ends_with_status_130_and_no_traceback(tmp_path):
    command = [sys.executable, "-P", "-m", "hwheel", "demo", "--count", "2000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        process.stdout.readline()  # the headline: the run begins
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (130, "hwheel demo: interrupted\n")


def test_the_recording_script_writes_a_log(tmp_path):
    from hwheel.logs.columns import LogColumns
    from hwheel.logs.files import read_file
    from hwheel.replay import NEVER

    out = tmp_path / "few.jsonl"
    command = [sys.executable, "-P", EXAMPLES / "record_requests.py", "--requests", "60", "--out", out]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path, timeout=PATIENCE_S)
    log, _ = read_file(str(out), LogColumns())
    assert len(log) == 60
    assert (log.ends_ms != NEVER).any()
