"""Durations, shard labels, and the functions that run in Spark's Python workers."""

import doctest
import subprocess
import sys
from datetime import timedelta

import pyarrow as pa
import pytest

from hwheel.spark import durations, worker
from hwheel.spark.arrow import from_stream, to_stream
from hwheel.spark.durations import duration_ms
from hwheel.spark.message import SEQUENCE, SHARD, TOMBSTONE, expirations
from hwheel.spark.worker import SETTINGS, Packer, partition_of, shard_labels, unpack


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1 second", 1000),
        ("10 minutes", 600_000),
        ("250ms", 250),
        ("2 H", 7_200_000),
        ("1 day", 86_400_000),
        ("3 milliseconds", 3),
        ("5s", 5000),
        ("0 seconds", 0),
        (timedelta(seconds=1.5), 1500),
        ("2 weeks", 1_209_600_000),
        ("10m", 600_000),
        ("10 min", 600_000),
        ("5 secs", 5000),
        ("2hrs", 7_200_000),
        ("1w", 604_800_000),
        ("250 MS", 250),
    ],
)
def test_durations(text, ms):
    assert duration_ms(text, "tick") == ms


@pytest.mark.parametrize(
    "text",
    ["", "1", "second", "-1 second", "1.5 s", "1 month", "5 ss", "5 hs", timedelta(microseconds=1), timedelta(-1)],
)
def test_error_of_a_malformed_duration_names_the_argument(text):
    with pytest.raises(ValueError, match="dedup must be"):
        duration_ms(text, "dedup")


def test_capital_m_is_refused_because_it_may_mean_minutes_or_months():
    with pytest.raises(ValueError, match="tick must have a unit with one meaning, not '10M': \"min\" is minutes"):
        duration_ms("10M", "tick")


@pytest.mark.parametrize("text", ["1 month", "3 Months", "2 years", "1 quarter"])
def test_units_of_varying_length_are_refused(text):
    with pytest.raises(ValueError, match=f"tick must be a fixed length, not '{text}': use days or hours"):
        duration_ms(text, "tick")


@pytest.mark.parametrize(("shards", "partitions"), [(1, 1), (2, 2), (8, 2), (3, 5), (200, 200), (7, 3)])
def test_shards_are_spread_evenly(shards, partitions):
    found = shard_labels(shards, partitions)
    assert len({*found}) == shards
    assert [partition_of(label, partitions) for label in found] == [shard % partitions for shard in range(shards)]


def test_partition_of_a_label_is_the_same_as_in_spark(spark):
    rows = spark.range(-50, 50).selectExpr("cast(id as int) as id", "pmod(hash(cast(id as int)), 7) as part").collect()
    assert all(partition_of(row.id, 7) == row.part for row in rows if row.id >= 0)


def test_expirations_are_rounded_up():
    due = pa.array([0, 1, 999, 1000, 1001], pa.int64())
    assert expirations(due, 1000).to_pylist() == [0, 1000, 1000, 1000, 2000]
    micros = pa.array([0, 1, 1_000_000, 1_000_001], pa.timestamp("us", "UTC"))
    assert expirations(micros, 1).to_pylist() == [0, 1, 1000, 1001]


def test_rows_are_packed_by_shard_in_order():
    batches = [
        pa.record_batch({"id": ids, TOMBSTONE: [False] * len(ids), SHARD: pa.array(shards, pa.int64())})
        for ids, shards in [(["a", "b", "c"], [1, 0, 1]), (["d", "e"], [0, 1])]
    ]
    packed = pa.Table.from_batches(Packer([10, 20])(batches))
    rows = {row["shard"]: from_stream(row["blob"]) for row in packed.to_pylist()}
    assert len(rows.pop(SETTINGS)) == 0
    ids = {shard: table.column("id").to_pylist() for shard, table in rows.items()}
    assert ids == {20: ["a", "c", "e"], 10: ["b", "d"]}
    with_sequence = [table.append_column(SEQUENCE, pa.array(range(len(table)), pa.int64())) for table in rows.values()]
    out = unpack([pa.record_batch({"blob": pa.array([to_stream(table) for table in with_sequence])})])
    assert [batch.to_pydict() for batch in out] == [{"id": ["a", "c", "e"]}, {"id": ["b", "d"]}]
    assert list(Packer([0])([])) == []


IN_A_WORKER = """
import gc
from unittest.mock import MagicMock

from pyspark import TaskContext

from hwheel.spark.deliver.json_lines import JsonLines
from hwheel.spark.worker import HoldProcessor, Packer, unpack

def begin():
    {begin}

begin()
assert gc.get_freeze_count() == 0, "outside of a worker"
TaskContext._setTaskContext(TaskContext())
for _ in range(2):
    gc.collect()
    begin()
assert len(gc.get_objects()) < 5000 < gc.get_freeze_count()
frozen, kept = gc.get_freeze_count(), [[] for _ in range(10_000)]
begin()
assert gc.get_freeze_count() <= frozen, "objects of later tasks are still collected"
"""


@pytest.mark.parametrize(
    "begin",
    ["[*Packer([0])([])]", "[*unpack([])]", "[*JsonLines(1)([])]", "HoldProcessor(MagicMock()).init(MagicMock())"],
)
def test_workers_freeze_permanent_objects(begin):
    """Spark collects garbage after each task, so the collector must not visit the imported modules each time."""
    subprocess.run([sys.executable, "-P", "-c", IN_A_WORKER.format(begin=begin)], check=True, timeout=1800)


@pytest.mark.parametrize("module", [durations, worker])
def test_examples_in_docstrings(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
