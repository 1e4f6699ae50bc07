"""Messages above --largest-message: each is a dead letter, and the others are delivered."""

import argparse
import bz2
import gzip
import random
import signal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chaos
from deliveries import WHEEL, encoded, file_letters, first_batches_done, ids_in, json_rows, put_lines, wait_until
from hwheel.cli.common import size
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.kept_input import keep_limit
from hwheel.spark.deliver.settings import CheckpointOptionsError, DeliverySettings, Places
from hwheel.spark.deliver.source import SCHEMA, UNREADABLE, Source
from hwheel.spark.deliver.trial_reading import PIECE_BYTES, long_line
from local_spark import needs_java


def message(id, length):
    return {"id": id, "key": "k", "due": 1000, "payload": "x" * length}


def test_large_lines_are_dead_letters_with_their_sizes(deliveries, tmp_path):
    bad = b'{"id": "\xff' + b"x" * 1_200_000
    put_lines(
        tmp_path / "in", "a.json", message("small", 10), message("large", 1_200_000), bad, message("last", 999_000)
    )
    deliveries.run()
    assert ids_in(tmp_path / "out") == ["last", "small"]
    reasons = {row["reason"]: row["line"] for row in json_rows(tmp_path / "dead")}
    sizes = {
        f"larger than --largest-message: {length} bytes"
        for length in (len(encoded(message("large", 1_200_000))), len(bad))
    }
    assert {*reasons} == sizes
    assert all(len(line) < 100 for line in reasons.values()) and any(
        line.startswith('{"id": "large"') for line in reasons.values()
    )
    put_lines(tmp_path / "in", "b.json", message("larger", 3_000_000))
    deliveries.run(lambda _: ids_in(tmp_path / "out") == ["larger", "last", "small"], largest_message=5_000_000)


def test_large_rows_of_parquet_are_dead_letters(spark, deliveries, tmp_path):
    (tmp_path / "in").mkdir()
    rows = [message("small", 10), message("large", 1_200_000)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in" / "a.parquet")
    deliveries.run(format="parquet")
    assert [row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()] == ["small"]
    (letter,) = spark.read.parquet(str(tmp_path / "dead")).collect()
    assert letter.reason == "larger than --largest-message: 1200006 bytes" and len(letter.payload) < 100


def test_message_whose_record_would_be_too_large_for_the_topic_is_refused(spark):
    """JSON inside of a JSON string grows."""
    source = Source(spark, DeliverySettings(Places("in", "kafka://b:1/t", "dead", "state"), WHEEL))
    quotes = [("fits", "k", 1, None, '"' * 400_000, None), ("grows", "k", 1, None, '"' * 600_000, None)]
    rows = spark.createDataFrame(quotes, f"{SCHEMA}, {UNREADABLE} string")
    found = {row.id: row.unreadable for row in source.fitting_record(rows).select("id", UNREADABLE).collect()}
    assert found["fits"] is None and found["grows"].startswith("larger than --largest-message: 1200")
    into_files = Source(spark, DeliverySettings(Places("in", "out", "dead", "state"), WHEEL))
    assert into_files.fitting_record(rows) is rows


def test_position_of_a_long_line(spark, tmp_path):
    file = tmp_path / "a b.json"
    url = file.as_uri()
    long = b"x" * (3 * PIECE_BYTES)
    short = b"y" * (PIECE_BYTES // 2)
    for before, line, after, expected in [
        (b"", long, b"", (0, len(long))),
        (b"a\n", long, b"\nb\n", (2, len(long))),
        (short + b"\n", long, b"\n" + short, (len(short) + 1, len(long))),
        (short, b"\n", short + b"\n" + short, None),
        (b"", b"", b"", None),
    ]:
        file.write_bytes(before + line + after)
        assert long_line(spark, url, PIECE_BYTES) == expected
        packed = tmp_path / "a.json.gz"
        packed.write_bytes(gzip.compress(before + line + after, 1))
        assert long_line(spark, packed.as_uri(), PIECE_BYTES) == expected


@pytest.mark.parametrize("length", [0, 1, 4, 40, 1000])
def test_file_that_was_cut_off_has_no_long_line(spark, tmp_path, length):
    """Hadoop reads the head of a file when it opens the file, or later. Spark reports such a file in another way."""
    for name, module in {"a.bz2": bz2, "a.gz": gzip}.items():
        (tmp_path / name).write_bytes(module.compress(random.Random(1).randbytes(3000))[:length])
        assert long_line(spark, (tmp_path / name).as_uri(), PIECE_BYTES) is None


def test_limit_changes_only_between_batches(spark, tmp_path):
    state = Directory(spark, str(tmp_path / "state"))
    offsets = tmp_path / "state" / "messages" / "offsets"
    for limit in (1000, 2000):
        keep_limit(state, limit)
    offsets.mkdir(parents=True)
    (offsets / "0").touch()
    keep_limit(state, 2000)
    with pytest.raises(
        CheckpointOptionsError, match="interrupted with --largest-message 2000, not 1000\nuse that limit"
    ):
        keep_limit(state, 1000)


def test_damaged_limit_is_named(spark, tmp_path):
    checkpoint = Directory(spark, str(tmp_path / "state"))
    keep_limit(checkpoint, 1000)
    (file,) = [one for one in (tmp_path / "state").iterdir() if not one.name.startswith(".")]
    file.write_text("10x")
    with pytest.raises(CheckpointOptionsError, match=f"/{file.name} is damaged\nrestore it from a copy"):
        keep_limit(checkpoint, 1000)


def test_limit_of_a_job_that_was_stopped_at_rest_may_change(deliveries, tmp_path):
    """Such a job is always in a batch."""
    put_lines(tmp_path / "in", "a.json", message("a", 10) | {"due": 4 * 10**12})
    delivery = deliveries.start()
    deliveries.tend(delivery, lambda: delivery.sink.rest.resting)
    delivery.stop()
    state = Directory(deliveries.spark, str(tmp_path / "state"))
    for limit in (1000, 2000):
        keep_limit(state, limit)


def test_sizes():
    assert [*map(size, ("1MB", "500 kB", "1g", "1000", "100B"))] == [10**6, 500_000, 10**9, 1000, 100]
    for text in ("", "MB", "1.5MB", "-1", "1 TB", "99", "2GB"):
        with pytest.raises(argparse.ArgumentTypeError, match="must be"):
            size(text)


@pytest.mark.slow
@needs_java
def test_line_larger_than_the_memory_of_java_leaves_out_its_file(tmp_path):
    put_lines(tmp_path / "in", "good.json", {"id": "good", "due": 1000})
    with gzip.open(tmp_path / "in" / "long.json.gz", "wb", 1) as file:
        file.write(b'{"id": "a"}\n')
        for _ in range(500):
            file.write(b" " * 1_000_000)
    job = chaos.Job(tmp_path)
    job.start()
    try:
        wait_until(lambda: json_rows(tmp_path / "out") and first_batches_done(tmp_path / "state"), job.check_runs)
        assert job.stop(signal.SIGTERM) == 0
    finally:
        if job.process.poll() is None:
            job.kill()
    assert ids_in(tmp_path / "out") == ["good"]
    ((name, reason),) = file_letters(tmp_path / "out-dead-letters").items()
    assert name == "long.json.gz" and reason.endswith("a line at byte 12 has 500000000 bytes")
