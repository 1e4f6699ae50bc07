"""`hwheel tune`: its recommendation, its report, and its errors."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hwheel.cli.main import main
from hwheel.replay import NEVER, Log
from hwheel.tune.advice import advise
from hwheel.tune.study import TICKS, WHEEL_SIZES, Grid, study


@pytest.fixture
def log(tmp_path):
    """Write a log of two files: 4000 timeouts of 1 s and 5 s, most of which are cancelled soon."""
    chance = np.random.default_rng(5)
    for number in range(2):
        starts = 1_795_176_000_000 + chance.integers(0, 60_000, 2000)
        never = chance.random(2000) < 0.1
        ends = pa.array(starts + chance.integers(1, 900, 2000), mask=never)
        table = pa.table(
            {
                "id": np.arange(2000),
                "key": ["a"] * 2000,
                "start": starts,
                "timeout": chance.choice([1000, 5000], 2000),
                "end": ends,
            }
        )
        (tmp_path / "log").mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / "log" / f"{number}.parquet")
    return tmp_path / "log"


def columns_of(path):
    table = pq.read_table(path)
    return [table[name].combine_chunks() for name in ("start", "timeout", "end")]


def tuned(capsys, *arguments):
    assert main(["tune", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_figures_equal_those_of_a_replay(log, capsys):
    found = json.loads(tuned(capsys, log, "--json", "--ticks", "1", "20", "--sizes", "20", "512", "--timeout", "300"))
    whole = Log(*columns_of(log))
    assert (found["timers"], found["wheels"], found["dropped"]) == (4000, 1, 0)
    points = [(point["tick_ms"], point["wheel_size"]) for point in found["points"]]
    assert points == [(1, 20), (1, 512), (20, 20), (20, 512)]
    for point in found["points"]:
        costs = whole.replay(tick_ms=point["tick_ms"], wheel_size=point["wheel_size"]).costs
        for name in ("fired", "cancelled", "wakeups", "cascaded", "peak_pending", "memory_bytes"):
            assert point[name] == getattr(costs, name), name
        assert point["lateness_ms"] == costs.lateness._asdict()
    [what_if] = found["what_if"]
    assert (
        what_if["fired"]
        == whole.replay(
            tick_ms=found["advice"]["tick_ms"], wheel_size=found["advice"]["wheel_size"], timeout_ms=300
        ).costs.fired
    )


def test_per_file_gives_each_file_a_wheel(log, capsys):
    found = json.loads(tuned(capsys, log, "--json", "--per-file", "--ticks", "1", "--sizes", "512"))
    parts = [Log(*columns_of(log / f"{number}.parquet")).replay().costs for number in range(2)]
    [point] = found["points"]
    assert found["wheels"] == 2
    for name in ("fired", "wakeups", "cascaded", "peak_pending", "memory_bytes"):
        assert point[name] == sum(getattr(part, name) for part in parts)


def test_the_report(log, tmp_path, capsys):
    shown = tuned(capsys, log, "--out", tmp_path / "new" / "report", "--timeout", "300")
    out = tmp_path / "new" / "report"
    assert {path.name for path in out.iterdir()} == {
        "report.html",
        "report.json",
        "lateness.png",
        "cost.png",
        "pending.png",
        "timeouts.png",
    }
    for picture in out.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    page = (out / "report.html").read_text()
    figures = json.loads((out / "report.json").read_text())
    for part in ("4,000 timers", "Choose: tick", "With a timeout of 300 ms for all", *figures["advice"]["reasons"]):
        assert part in page
    assert all(f'src="{path.name}"' in page for path in out.glob("*.png"))
    assert sum(figures["pending"]["timers"]) > 0 and figures["pending"]["timers"][-1] == 0
    assert "Choose a tick of" in shown and "report.html" in shown.replace("\n", "")


@pytest.mark.parametrize(("late_ms", "tick_ms"), [(0, 1), (3, 4), (8, 4), (9, 10), (500, 100)])
def test_the_chosen_tick_is_the_coarsest_within_the_limit(late_ms, tick_ms):
    starts = np.arange(5000)
    found = study(Log(starts, np.full(5000, 2000), np.full(5000, -(2**63))), Grid((1, 4, 10, 100), (512,)))
    advice = advise(found, late_ms)
    assert advice.costs.tick_ms == tick_ms
    assert advice.costs.lateness.max <= late_ms
    assert f"{late_ms} ms is allowed" in advice.reasons[0]


@pytest.mark.parametrize("far_ms", [[2**40, 5], [2**61, 2**40], [2**62, 2**62]])
def test_no_reason_has_a_negative_share(far_ms):
    found = study(Log([0, 10], far_ms, [NEVER, 12]), Grid(TICKS, WHEEL_SIZES), curves=True)
    for late_ms in (None, 0, 1, 50, 1000, 10**9):
        assert not [reason for reason in advise(found, late_ms).reasons if re.search(r"-\d", reason)]


def test_a_tick_that_saves_no_wake_ups_is_not_chosen():
    starts = np.arange(100) * 1000  # each on a tick of its own, however coarse
    found = study(Log(starts, np.full(100, 2000), np.full(100, -(2**63))), Grid((1, 10, 100), (4096,)))
    assert advise(found, 500).costs.tick_ms == 1


def test_the_chosen_wheel_is_the_smallest_good_one():
    starts = np.arange(20_000)
    found = study(Log(starts, np.full(20_000, 4000), np.full(20_000, -(2**63))), Grid((1,), (20, 128, 8192, 16384)))
    # 8192 reaches the timeouts in one level; with more there is nothing to gain, with fewer each timer moves.
    assert advise(found, 5).costs.wheel_size == 8192


def test_the_default_limit_is_a_hundredth_of_the_median_timeout():
    found = study(Log([0, 0, 0], [100, 3000, 90_000], [-(2**63)] * 3), Grid((1, 25, 50), (20,)), curves=True)
    assert advise(found).late_ms == 30
    assert "30 ms is 1 % of the median timeout, 3 s" in advise(found).reasons[0]


def test_dropped_timers_are_reported(tmp_path, capsys):
    table = pa.table({"start": [0], "timeout": [1], "end": [1]}).replace_schema_metadata({"hwheel.dropped": "17"})
    pq.write_table(table, tmp_path / "log.parquet")
    assert "lacks 17 timers" in tuned(capsys, tmp_path)
    assert json.loads(tuned(capsys, tmp_path, "--json"))["dropped"] == 17
    tuned(capsys, tmp_path, "--out", tmp_path / "report")
    assert "lacks 17 timers" in (tmp_path / "report" / "report.html").read_text()


def test_a_report_on_several_wheels(log, tmp_path, capsys):
    tuned(capsys, log, "--per-file", "--out", tmp_path / "report")
    assert list((tmp_path / "report").iterdir())


def test_a_report_that_cannot_be_written_is_reported_in_one_line(log, tmp_path, capsys):
    taken = tmp_path / "taken"
    taken.write_text("")
    for out, text in [(taken, "is not a directory"), (taken / "report", "Not a directory")]:
        assert main(["tune", str(log), "--out", str(out)]) == 2
        assert text in capsys.readouterr().err


def test_the_reason_if_every_tick_is_too_coarse():
    found = study(Log([0], [2000], [NEVER]), Grid((100,), (512,)))
    assert "is the finest one that was tried, and too coarse: 5 ms is allowed" in advise(found, 5).reasons[0]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"start": ["x"]}, "column 'start' must be a number of milliseconds or a timestamp, got string"),
        ({"start": [5], "end": [4]}, "row 0: 'end' is before 'start'"),
        ({"timeout": pa.array([2**63 - 1])}, "do not fit into 64 bits"),
    ],
)
def test_a_bad_log_is_reported_in_one_line(tmp_path, capsys, columns, text):
    pq.write_table(pa.table({"start": [3], "timeout": [1], "end": [9], **columns}), tmp_path / "log.parquet")
    assert main(["tune", str(tmp_path)]) == 2
    shown = capsys.readouterr().err
    assert text in shown and shown.count("\n") == 1 and shown.startswith("hwheel tune: ")


def test_an_empty_log_is_an_error(tmp_path, capsys):
    none = pa.array([], pa.int64())
    pq.write_table(pa.table({"start": none, "timeout": none, "end": none}), tmp_path / "log.parquet")
    assert main(["tune", str(tmp_path)]) == 2
    assert "the log has no timers" in capsys.readouterr().err


def test_the_example_log(capsys):
    log = Path(__file__).parents[2] / "examples" / "requests.jsonl"
    assert main(["tune", str(log), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["timers"] == len(log.read_text().splitlines())
