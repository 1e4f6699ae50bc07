"""The wheel of one shard, with its state in dicts, compared with a plain model. The tests do not start Spark."""

import json
from dataclasses import replace
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hwheel.spark.message import SEQUENCE
from hwheel.spark.shard import state
from hwheel.spark.shard.settings import Column, Limits
from hwheel.spark.shard.wheel import ShardWheel
from sampling import search_settings
from shard_model import COLUMNS, SCHEMA, PlainModel, Record, Shard, check_against_model

MODEL = search_settings(60)
START_MS = 1_795_176_000_123
MB = 1024 * 1024

dues_ms = st.integers(-2000, 8000) | st.integers(-(10**6), 10**6) | st.sampled_from([10**9, 10**11, -(10**10)])


@st.composite
def histories(draw):
    """Draw batches of (time, records): messages, duplicates, and cancels before, with, or after their messages."""
    now_ms, batches, known = START_MS, [], []
    for _ in range(draw(st.integers(1, 12))):
        now_ms += draw(st.sampled_from([1, 250, 1000, 1000, 4000, 20_000, 10**6, 10**9]))
        records = []
        for _ in range(draw(st.integers(0, 12))):
            if known and draw(st.integers(0, 2)) == 0:
                record = draw(st.sampled_from(known))
                # Sometimes with another key: equal ids of different keys are different messages.
                key = draw(st.sampled_from([record.key, record.key, None, f"k{draw(st.integers(0, 2))}"]))
                records.append(record._replace(cancel=draw(st.booleans()), key=key))
            else:
                number = len(known)
                due_ms = draw(st.sampled_from(known)).due if known and draw(st.booleans()) else now_ms + draw(dues_ms)
                payload = "x" * draw(st.sampled_from([number % 50, number % 50, 4000]))
                record = Record(f"m{number}", f"k{number % 3}", due_ms, False, payload)
                known.append(record)
                if draw(st.integers(0, 4)) > 0:
                    records.append(record._replace(cancel=draw(st.integers(0, 5)) == 0))
        batches.append((now_ms, records))
    return batches


@MODEL
@given(
    histories(),
    st.sampled_from([1, 250, 1000]),
    st.sampled_from([2, 4, 256]),
    st.sampled_from([1, 5, 10**6]),
    st.sampled_from([1, 2000, 10**6]),
    st.sampled_from([1, 300, 10**6]),
)
@example(
    [
        (START_MS, [Record("a", "k", START_MS + 5000)]),
        (START_MS + 9000, [Record("b", "k", START_MS + 7000), Record("c", "k", START_MS + 2000)]),
    ],
    1000,
    2,
    1,
    1,
    1,
)
def test_shard_agrees_with_the_model(batches, tick_ms, wheel_size, step_rows, chunk_bytes, most_bytes):
    limits = Limits(step_rows, most_bytes, step_rows, most_bytes, min(step_rows, 7), most_bytes, most_bytes // 2)
    with patch.multiple(state, OPEN_BYTES=min(chunk_bytes, 500), CHUNK_BYTES=chunk_bytes):
        check_against_model(Shard(tick_ms, wheel_size, 10**15, limits), PlainModel(tick_ms), batches)


@MODEL
@given(histories(), st.sampled_from([2, 5]))
def test_next_ms_wakes_the_shard_for_every_tick(batches, wheel_size):
    """If batches run only for input and at next_ms, every message is still delivered within its tick."""
    shard, model = Shard(1000, wheel_size, 10**15), PlainModel(1000)
    following = [now_ms for now_ms, _ in batches[1:]] + [batches[-1][0] + 10**12]
    for (now_ms, records), following_ms in zip(batches, following, strict=True):
        assert shard.batch(records, now_ms) == model.batch(records, now_ms)
        while shard.index and shard.next_ms is not None and shard.next_ms < following_ms:
            at_ms = shard.next_ms
            out = shard.batch([], at_ms)
            assert out == model.batch([], at_ms)
            assert all(at_ms - record.due < 1000 for record in out)


@pytest.fixture
def peak_arrow_bytes():
    """Return a function that returns the peak of Arrow's allocated bytes since the test began."""
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(pool)
    yield pool.max_memory
    pa.set_memory_pool(before)


@pytest.mark.parametrize("size", [3 * MB, 4000, 40])
@pytest.mark.parametrize("wait_ms", [0, 1500, 70_000], ids=["late", "in one tick", "in a coarse bucket"])
def test_memory_is_bounded_for_large_ticks(peak_arrow_bytes, size, wait_ms):
    """A tick has 90 MB or 200,000 short messages. The limits are 4 MB and 8,000 messages at a time."""
    limits = Limits(8000, 4 * MB, 8000, 2 * MB, 4000, MB, 2 * MB)
    shard = Shard(wheel_size=16, limits=limits)
    count = min(90 * MB // size, 200_000)
    dues = [START_MS // 1000 * 1000 - 10_000 + wait_ms + i * 7919 % 1000 for i in range(count)]

    def arriving():
        at_a_time = max(1, MB // size)
        for start in range(0, count, at_a_time):
            rows = range(start, min(start + at_a_time, count))
            columns = [f"m{i}" for i in rows], [f"k{i % 7}" for i in rows], [dues[i] for i in rows]
            payload = [f"{i:x}" * (size // len(f"{i:x}")) for i in rows]
            yield from pa.table([*columns, payload, [False] * len(rows)], schema=SCHEMA).to_batches()

    index = ShardWheel.new_index(shard.settings, SCHEMA)
    out, sizes = [], []
    now_ms = START_MS - 10_000
    for batch, at_ms in ((arriving(), now_ms), ((), now_ms + wait_ms + 2000), (arriving(), now_ms + wait_ms + 2500)):
        for table in shard.wheel(index).advance(batch, at_ms):
            out += table.column("id").to_pylist()
            sizes.append(table.nbytes)
    assert out == [f"m{i}" for i in sorted(range(count), key=lambda i: (dues[i], i))], "once, although all came twice"
    assert max(sizes) <= max(2 * MB, 1.1 * size)
    assert peak_arrow_bytes() < 40 * MB


def test_one_wakeup_per_bucket():
    shard = Shard(wheel_size=256)
    start_ms = START_MS // 65_536_000 * 65_536_000
    shard.batch([Record(f"m{i}", "k", start_ms + 1000 * 300 + i) for i in range(1000)], start_ms)
    assert len(shard.read_index().buckets) == 1
    assert len(shard.batch([], start_ms + 256_000)) == 0, "the bucket of level 2 expires and is cascaded"
    first = next(key for key in shard.read_index().buckets if key[0] == 1)
    assert first[1] == shard.next_ms


def test_distant_messages_need_few_buckets():
    shard = Shard(wheel_size=256)
    year_ms = 365 * 86_400_000
    shard.batch([Record(f"m{i}", "k", START_MS + i * year_ms // 1000) for i in range(50_000)], START_MS)
    assert len(shard.read_index().buckets) < 700


def test_duplicates_are_dropped_until_the_horizon_after_delivery():
    shard = Shard(dedup_ms=10_000)
    message = Record("a", "k", START_MS + 500)
    shard.batch([message], START_MS)
    delivered_ms = START_MS + 5000
    assert shard.batch([], delivered_ms) == [message]
    assert shard.batch([], delivered_ms + 9_999) == []
    assert shard.batch([message], delivered_ms + 9_999) == []
    assert shard.batch([], delivered_ms + 10_000) == []
    assert not shard.delivered and shard.next_ms is None
    assert shard.batch([message], delivered_ms + 10_001) == [message]


def test_horizon_starts_at_delivery_and_not_at_the_deadline():
    shard = Shard(dedup_ms=10_000, limits=Limits(step_rows=1))
    messages = [Record(f"m{i}", "k", START_MS + 5000 * i) for i in range(1, 9)]
    shard.batch(messages, START_MS)
    after_a_pause_ms = START_MS + 3_600_000
    assert shard.batch([], after_a_pause_ms) == messages
    assert shard.batch([], after_a_pause_ms + 9_999) == []
    assert shard.batch(messages, after_a_pause_ms + 9_999) == []


@pytest.mark.parametrize("other_ms", [5_000, 600_000, 10**9])
def test_changed_horizon_applies_to_later_deliveries_only(other_ms):
    shard = Shard(dedup_ms=10_000, tick_ms=10)
    first, second = (Record(id, "k", START_MS + 500) for id in "ab")
    assert shard.batch([first], START_MS + 1000) == [first]
    shard.settings = replace(shard.settings, dedup_ms=other_ms)
    assert shard.batch([first, second], START_MS + 2000) == [second]
    assert shard.batch([first, second], START_MS + 6_000) == []
    assert shard.batch([], START_MS + 2000 + max(other_ms, 10_000)) == []
    assert not shard.delivered and shard.next_ms is None
    assert shard.batch([first], START_MS + 2001 + max(other_ms, 10_000)) == [first]


def test_backlog_of_old_messages_is_deduplicated():
    shard = Shard(dedup_ms=10_000)
    old = [Record(f"m{i}", "k", START_MS - (i + 1) * 3_600_000) for i in range(1000)]
    assert shard.batch(old, START_MS) == old[::-1]
    assert shard.batch(old[:500], START_MS + 9_000) == []
    assert len(shard.read_index().delivered) < 300, "slices of the distant past are long"


def test_equal_ids_of_different_keys_are_different_messages():
    shard = Shard(dedup_ms=10_000)
    alice, bob, no_key = (Record("x", key, START_MS + 500) for key in ("alice", "bob", None))
    shard.batch([alice, bob, no_key, bob], START_MS)
    shard.batch([no_key._replace(cancel=True)], START_MS)
    assert shard.batch([], START_MS + 1000) == [alice, bob]
    carol = Record("x", "carol", START_MS + 500)
    assert shard.batch([bob, no_key, carol, alice], START_MS + 2000) == [carol]


def test_late_cancel_before_its_message():
    shard = Shard(dedup_ms=10_000)
    message = Record("a", "k", START_MS - 1)
    assert shard.batch([message._replace(cancel=True)], START_MS) == []
    assert shard.batch([message], START_MS + 9_000) == []


def test_clock_set_back_sends_nothing_early_or_twice():
    shard = Shard()
    first, second = Record("a", "k", START_MS), Record("b", "k", START_MS - 2000)
    assert shard.batch([first], START_MS + 1000) == [first]
    assert shard.batch([first, second], START_MS - 3000) == []
    assert shard.batch([first], START_MS - 1) == [second]
    assert shard.batch([], START_MS + 2000) == []


def test_state_with_another_tick_is_refused():
    shard = Shard(tick_ms=1000)
    shard.batch([Record("a", "k", START_MS)], START_MS)
    shard.settings = Shard(tick_ms=2000).settings
    with pytest.raises(ValueError, match="tick=1000ms.*tick=2000ms"):
        shard.batch([Record("b", "k", START_MS)], START_MS)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([*COLUMNS[:3], Column("text", "string")], "column 4 is payload string in the checkpoint and text string in"),
        (
            [*COLUMNS[:2], COLUMNS[3], COLUMNS[2]],
            "column 3 is due bigint .* payload string in the query, column 4 is payload",
        ),
        (
            [*COLUMNS[:3], Column("payload", "binary")],
            "column 4 is payload string in the checkpoint and payload binary in",
        ),
        (COLUMNS[:3], "column 4 is payload string in the checkpoint and none in"),
        ([*COLUMNS, Column("more", "int")], "column 5 is none in the checkpoint and more int in"),
    ],
)
def test_state_with_other_columns_is_refused(columns, message):
    shard = Shard()
    shard.batch([Record("a", "k", START_MS + 5000)], START_MS)
    shard.settings = replace(shard.settings, columns=columns)
    with pytest.raises(ValueError, match=f"{message}.*id string, key string, due bigint, payload string$"):
        shard.batch([], START_MS + 5000)  # even without new input


def test_state_in_another_format_is_refused():
    shard = Shard()
    shard.batch([Record("a", "k", START_MS + 5000)], START_MS)
    fields = json.loads(shard.index)
    shard.index = json.dumps({**fields, "format": 1})
    message = "has format 1, and this version reads 4. .* start with a new checkpoint"
    with pytest.raises(ValueError, match=message):
        shard.batch([], START_MS + 5000)


@pytest.mark.parametrize("part", ["index", "bucket", "delivered"])
def test_corrupted_state_stops_the_batch(part):
    shard = Shard()
    shard.batch([Record("a", "k", START_MS + 5000), Record("b", "k", START_MS)], START_MS + 1000)
    if part == "index":
        shard.index = shard.index.replace(f'"clock_ms":{START_MS + 1000}', f'"clock_ms":{START_MS + 1001}')
    else:
        chunks, byte = (shard.buckets, b"a") if part == "bucket" else (shard.delivered, b"b")
        [(key, chunk)] = chunks.items()
        at = chunk.index(byte, len(chunk) // 2)
        chunks[key] = chunk[:at] + b"c" + chunk[at + 1 :]
    with pytest.raises(ValueError, match="damaged: its checksum does not match"):
        shard.batch([Record("b", "k", START_MS)], START_MS + 9000)


def test_index_survives_json():
    shard = Shard()
    shard.batch([Record("a", "k", START_MS + 5000), Record("b", "k", START_MS)], START_MS + 1000)
    index = shard.read_index()
    assert index.to_json() == shard.index
    assert json.loads(shard.index)["sequence"] == 2
    assert SEQUENCE in index.arrow_schema.names
