"""`hwheel demo`, for real but small."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hwheel.cli.demo import drive, engines
from hwheel.cli.demo.request_log import read_log
from hwheel.cli.main import main
from servers import live_snapshot

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = ["--count", "500", "--rate", "1000", "--timeout-ms", "200", "500", "--no-peers"]


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
    for row in ("timers a second", "cancels a second", "expired", "lateness p99", "memory a timer"):
        assert re.search(rf"^ {row} +[\d,.]+", text, re.MULTILINE), row
    assert "asyncio" not in text
    cancelled, ran = map(int, re.search(r"500 timers: (\d+) cancelled, (\d+) ran", text).groups())
    assert cancelled + ran == 500 and ran >= 25
    assert "lost 0, doubled 0, early 0" in text


def test_the_peers_stand_beside_with_how_many_they_had(capsys):
    status, text = demo(capsys, *QUICK[:-1])
    assert status == 0
    assert re.search(r"^ +hwheel +asyncio +sched +threading.Timer", text, re.MULTILINE)
    assert re.search(r"^ timers +500 +500 +500 +300", text, re.MULTILINE)


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_keeps_within_the_columns(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    _, text = demo(capsys, "--count", "50", "--rate", "1000", "--timeout-ms", "20", "90")
    assert max(map(len, text.splitlines())) <= columns
    assert "…" not in text


def test_a_coarse_tick_is_never_early(capsys):
    status, text = demo(capsys, *QUICK, "--tick-ms", "100", "--wheel-size", "2", "--cancel-ratio", "0")
    assert status == 0
    assert "500 timers: 0 cancelled, 500 ran; lost 0, doubled 0, early 0" in text


@pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")
def test_a_demo_can_be_looked_at_while_it_runs(short_path, eventually):
    path = str(short_path / "demo.sock")
    command = [sys.executable, "-P", "-m", "hwheel", "demo", *QUICK, "--live", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            eventually(lambda: os.path.exists(path))
            told = live_snapshot(path)
            out, err = running.communicate(timeout=100)
        finally:
            running.kill()
    assert told["pid"] == running.pid and [timer["name"] for timer in told["timers"]] in ([], ["demo"])
    assert (running.returncode, err) == (0, "") and "lost 0, doubled 0, early 0" in out
    assert not os.path.exists(path)


def test_a_demo_that_cannot_be_looked_at_there_does_not_begin(short_path, capsys):
    (short_path / "mine").touch()
    for address, said in ((short_path / "mine", "this is no socket"), ("/nowhere/a", "No such"), ("99999", "65535")):
        assert main(["demo", *QUICK, "--live", str(address)]) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.startswith("hwheel demo: --live: ") and said in captured.err


class Losing(engines.WheelEngine):
    def __init__(self, *settings):
        super().__init__(*settings)
        self.call_at = self.call_at_unless_3

    def call_at_unless_3(self, when, callback, index):
        task = self.timer.call_at(when, callback, index)
        if index == 3:
            task.cancel()
        return task


class Doubling(engines.WheelEngine):
    def __init__(self, *settings):
        super().__init__(*settings)
        self.call_at = self.call_at_and_3_again

    def call_at_and_3_again(self, when, callback, index):
        if index == 3:
            self.timer.call_at(when, callback, index)
        return self.timer.call_at(when, callback, index)


class Hurrying(engines.WheelEngine):
    def __init__(self, *settings):
        super().__init__(*settings)
        self.call_at = self.call_at_but_3_early

    def call_at_but_3_early(self, when, callback, index):
        if index == 3:
            callback(index)  # here and now: a busy machine does not make that one late
            return None
        return self.timer.call_at(when, callback, index)


@pytest.mark.parametrize(
    ("engine", "said", "grace_s"),
    [
        (Losing, "lost 1, doubled 0, early 0", 2),  # after which the others would count as lost, too
        (Doubling, "lost 0, doubled 1, early 0", 60),
        (Hurrying, "lost 0, doubled 0, early 1", 60),
    ],
)
def test_a_timer_that_is_lost_doubled_or_early_is_counted_and_ends_with_status_1(
    capsys, monkeypatch, engine, said, grace_s
):
    monkeypatch.setattr(engines, "WheelEngine", engine)
    monkeypatch.setattr(drive, "GRACE_S", grace_s)
    status, text = demo(capsys, *QUICK, "--cancel-ratio", "0")
    assert status == 1
    assert said in text


def test_the_example_log_is_real_small_enough_and_has_requests_that_took_too_long():
    path = EXAMPLES / "requests.jsonl"
    requests = read_log(path)
    assert path.stat().st_size < 300_000
    assert len(requests) >= 2_000
    too_long = [request for request in requests if request.end_ms is None]
    assert 0 < len(too_long) < len(requests) / 2


def test_the_example_log_drives_a_demo(capsys):
    status, text = demo(capsys, "--log", str(EXAMPLES / "requests.jsonl"), "--speed", "10", "--no-peers")
    assert status == 0
    assert "requests.jsonl, 10 times faster" in text
    assert "lost 0, doubled 0, early 0" in text


def test_a_csv_log_drives_a_demo_at_its_own_pace(capsys, tmp_path):
    log = tmp_path / "requests.csv"
    log.write_text("start,timeout,end\n1000,2000,1010\n1100,200,\n1200,2000,1250\n")
    begin = time.monotonic()
    status, text = demo(capsys, "--log", str(log), "--no-peers")
    assert time.monotonic() - begin >= 0.3
    assert status == 0
    assert "3 timers: 2 cancelled, 1 ran; lost 0, doubled 0, early 0" in text


def test_a_malformed_log_is_one_line_that_names_the_line(capsys, tmp_path):
    log = tmp_path / "requests.jsonl"
    log.write_text('{"start": 0, "timeout": 5, "end": null}\n{"start": 0, "timeout": "soon"}\n')
    assert main(["demo", "--log", str(log)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"hwheel demo: {log}, line 2: timeout must be a number of ms, not 'soon'\n"


def test_an_interrupt_ends_with_status_130_and_no_traceback(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "hwheel", "demo", "--count", "2000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    with process:
        process.stdout.readline()  # the headline: the run begins
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "hwheel demo: interrupted\n"


def test_the_recording_script_records_a_log_that_can_be_read(tmp_path):
    out = tmp_path / "few.jsonl"
    subprocess.run(
        [sys.executable, "-P", str(EXAMPLES / "record_requests.py"), "--requests", "60", "--out", str(out)],
        check=True,
        capture_output=True,
        cwd=tmp_path,
        timeout=60,
    )
    requests = read_log(out)
    assert len(requests) == 60
    assert any(request.end_ms is not None for request in requests)
    assert [request.start_ms for request in requests] == sorted(request.start_ms for request in requests)
