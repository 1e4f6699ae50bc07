"""hwheel.spark.replay on small logs, compared with a ManualTimer and with hwheel.replay."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from hwheel.logs.columns import LogError
from hwheel.replay import CANCELLED, Log
from hwheel.tune.study import Grid, Study, study
from replay_model import log_rows, outcomes_by_timer
from sampling import search_settings

pytest.importorskip("pyspark")
from hwheel.spark.replay import outcomes, replay
from hwheel.spark.replay.by_key import hashes

FATES = st.lists(log_rows().filter(lambda row: row[2] is None or row[2] >= row[0]), min_size=1, max_size=40)


def table_of(log):
    starts, timeouts, ends = zip(*log, strict=True)
    ids = pa.array([f"t{number}" for number in range(len(log))])
    return pa.table(
        {
            "id": ids,
            "key": ids,
            "start": pa.array(starts, pa.int64()),
            "timeout": pa.array(timeouts, pa.int64()),
            "end": pa.array(ends, pa.int64()),
        }
    )


def random_log(count, seed, shuffled=False):
    chance = np.random.default_rng(seed)
    starts = chance.integers(0, 10_000, count)
    if not shuffled:
        starts.sort()
    never = chance.random(count) < 0.3
    return pa.table(
        {
            "id": np.arange(count),
            "key": pa.array(np.char.mod("k%d", chance.integers(0, 50, count))),
            "start": starts,
            "timeout": chance.integers(1, 1000, count),
            "end": pa.array(starts + chance.integers(0, 2000, count), mask=never),
        }
    )


def log_of(table):
    return Log(*(table[name].combine_chunks() for name in ("start", "timeout", "end")))


@search_settings(5, suppress_health_check=[*HealthCheck])
@given(log=FATES, tick=st.integers(1, 50), wheel_size=st.integers(2, 40))
def test_outcomes_are_those_of_a_manual_timer(spark, log, tick, wheel_size):
    log = [(start, max(timeout, 0), end) for start, timeout, end in log]  # logs have no negative timeouts
    found = outcomes(spark.createDataFrame(table_of(log)), tick=tick, wheel_size=wheel_size).toArrow()
    by_id = {row["id"]: (row["outcome"], row["at"]) for row in found.to_pylist()}
    wanted = outcomes_by_timer(log, tick, wheel_size)
    names = {number: ("cancelled" if number == CANCELLED else "fired") for number in (0, 1)}
    assert by_id == {f"t{row}": (names[outcome], at_ms) for row, (outcome, at_ms) in enumerate(wanted)}


def test_files_are_wheels_whose_costs_add_up(spark, tmp_path):
    tables = [random_log(3000, 1), random_log(2000, 2, shuffled=True), random_log(1, 3).slice(1)]
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=700)
    found = replay(str(tmp_path), ticks=[1, 10], wheel_sizes=[20, 512], timeouts=[None, 300], curves=True)
    parts = [study(log_of(table), Grid((1, 10), (20, 512), (None, 300)), curves=True) for table in tables]
    wanted = Study.merged(parts)
    assert found.costs == wanted.costs and found.wheels == 2
    assert (found.curves.pending.pending == wanted.curves.pending.pending).all()
    assert [costs.lateness for costs in found.costs] == [costs.lateness for costs in wanted.costs]
    one = replay([str(tmp_path / "0.parquet")])
    assert one.costs == (log_of(tables[0]).replay().costs,)


def test_each_partition_of_a_frame_is_one_wheel(spark):
    table = random_log(2000, 4)
    frame = spark.createDataFrame(table).coalesce(1)
    assert replay(frame, ticks=[5]).costs == (log_of(table).replay(tick_ms=5).costs,)


@pytest.mark.parametrize("as_frame", [True, False])
def test_shards_by_key_are_wheels_wherever_their_rows_are(spark, tmp_path, as_frame):
    table = random_log(3000, 5, shuffled=True)
    for number in range(3):
        pq.write_table(table.slice(number * 1000, 1000), tmp_path / f"{number}.parquet", row_group_size=300)
    log = spark.createDataFrame(table).repartition(3) if as_frame else str(tmp_path)
    found = replay(log, key="key", wheels=4, ticks=[1, 10], curves=True)
    shards = hashes(table["key"].combine_chunks()) % 4
    assert set(shards) == {0, 1, 2, 3}
    # Rows of a frame may arrive in another order, which no count depends on.
    logs = [log_of(table.filter(pa.array(shards == shard))) for shard in range(4)]
    wanted = Study.merged([study(log, Grid((1, 10), (512,)), curves=True) for log in logs])
    assert found.costs == wanted.costs and found.wheels == 4
    assert (found.curves.pending.pending == wanted.curves.pending.pending).all()


def test_numeric_and_null_keys(spark):
    frame = spark.sql(
        "SELECT id, IF(id % 7 = 0, NULL, id % 5) AS key, 1000 + id AS start, 100 AS timeout,"
        " CAST(NULL AS BIGINT) AS end FROM range(100)"
    )
    found = replay(frame, key="key", wheels=3)
    assert found.timers == 100 and found.wheels <= 3
    texts = hashes(pa.array(["a", None, "b", "a"])).tolist()
    assert texts[0] == texts[3] != texts[2] and texts[1] == 0 and min(texts) >= 0


def test_timestamps_and_intervals(spark):
    frame = spark.sql(
        "SELECT 1 AS id, timestamp_millis(1000) AS begun, INTERVAL '2' SECOND AS wait, CAST(NULL AS TIMESTAMP) AS end"
    )
    [row] = outcomes(frame, start="begun", timeout="wait", tick=7).collect()
    assert (row.outcome, row.at) == ("fired", 3003)
    assert row.begun.timestamp() == 1


def test_example_of_the_page(spark, tmp_path):
    page = Path(__file__).parents[2] / "docs" / "replay.md"
    (code,) = [code for code in re.findall(r"```python\n((?s:.*?))```", page.read_text()) if "pyspark" in code]
    pq.write_table(random_log(100, 6), tmp_path / "0.parquet")
    names = {}
    exec(compile(code.replace('"log"', repr(str(tmp_path))), str(page), "exec"), names)
    assert names["study"].timers == 100
    assert {row.outcome for row in names["fates"].collect()} == {"fired", "cancelled"}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"start": ["x"]}, "column 'start' must be a number of milliseconds or a timestamp, got string"),
        ({"start": [10], "end": [9]}, r"0.parquet, row 0: 'end' is before 'start'"),
        (
            {"start": pa.array([], pa.int64()), "end": pa.array([], pa.int64()), "timeout": pa.array([], pa.int64())},
            "the log has no timers",
        ),
    ],
)
def test_malformed_logs_are_refused(spark, tmp_path, columns, message):
    pq.write_table(pa.table({"start": [0], "timeout": [1], "end": [1], **columns}), tmp_path / "0.parquet")
    for options in ({}, {"key": "timeout", "wheels": 2}):
        with pytest.raises(LogError, match=message):
            replay(str(tmp_path), **options)


def test_invalid_arguments_are_refused(spark, tmp_path):
    frame = spark.createDataFrame(random_log(1, 1))
    for function in (replay, outcomes):
        with pytest.raises(LogError, match="there is no column 'begun'"):
            function(frame, start="begun")
    with pytest.raises(ValueError, match="must not have a column 'at'"):
        outcomes(frame.withColumnRenamed("key", "at"))
    with pytest.raises(ValueError, match="wheel_size must be from 2"):
        replay(frame, wheel_sizes=[1])
    for options, error, message in (
        ({"key": "key"}, ValueError, "go together"),
        ({"key": "key", "wheels": 0}, ValueError, "from 1 to 4096"),
        ({"key": "key", "wheels": True}, TypeError, "wheels must be an int"),
        ({"key": "colour", "wheels": 2}, LogError, "there is no column 'colour'"),
    ):
        with pytest.raises(error, match=message):
            replay(frame, **options)
    with pytest.raises(LogError, match="nothing-here"):
        replay(str(tmp_path / "nothing-here"))
