"""Cancels and replacements by id and key in one shard, against the plain model. Spark is not started."""

from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwheel.spark.shard import id_index, state
from hwheel.spark.shard.settings import Limits
from sampling import search_settings
from shard_model import PlainModel, Record, Shard, check_against_model

MODEL = search_settings(60)
START_MS = 1_795_176_000_000

dues_ms = st.sampled_from([-5000, -1, 0, 1, 999, 1000, 2500, 30_000, 40_000, 10**6, 10**9])


def cancel(id, key="k"):
    return Record(id, key, None, True)


def replacing(id, due, payload=None, key="k"):
    return Record(id, key, due, False, payload, True)


@st.composite
def histories(draw):
    """Draw batches of (time, records). There are few ids, so that operations on one message meet."""
    now_ms, batches, known = START_MS, [], []
    for _ in range(draw(st.integers(1, 10))):
        now_ms += draw(st.sampled_from([1, 250, 1000, 4000, 20_000, 10**6]))
        records = []
        for _ in range(draw(st.integers(0, 10))):
            kind = draw(st.sampled_from(["new", "new", "again", "cancel", "cancel by id", "replace", "replace"]))
            if kind == "new" or not known:
                number = len(known) if draw(st.booleans()) else draw(st.integers(0, 3))
                record = Record(f"m{number}", f"k{draw(st.integers(0, 1))}", now_ms + draw(dues_ms), False, f"{number}")
                known.append(record)
                records.append(record)
                continue
            record = draw(st.sampled_from(known))
            key = draw(st.sampled_from([record.key, record.key, record.key, None]))
            if kind == "cancel":
                record = record._replace(cancel=True)
            elif kind == "cancel by id":
                record = cancel(record.id)
            elif kind == "replace":
                due_ms = draw(st.sampled_from(known)).due if draw(st.booleans()) else now_ms + draw(dues_ms)
                record = replacing(record.id, due_ms, draw(st.sampled_from([None, "later"])))
                known.append(record._replace(replace=False, key=key))
            records.append(record._replace(key=key))
        batches.append((now_ms, records))
    return batches


@MODEL
@given(
    histories(),
    st.sampled_from([1, 250, 1000]),
    st.sampled_from([2, 4, 256]),
    st.sampled_from([1, 3, 10**6]),
    st.sampled_from([1, 300, 10**6]),
    st.sampled_from([1, 10**6]),
    st.booleans(),
)
def test_shard_agrees_with_the_model(
    batches, tick_ms, wheel_size, step_rows, chunk_bytes, together_bytes, hashes_collide
):
    """With small chunks and steps, parts of the id index are split and compacted at once."""
    limits = Limits(step_rows, 10**6, step_rows, 10**6, min(step_rows, 7), 10**6, 10**6)
    shard = Shard(tick_ms, wheel_size, 10**15, limits, by_id=True)
    if hashes_collide:
        shard.hash = lambda record: -(2**40)
    spare_rows = 0 if together_bytes == 1 else 65_536
    with (
        patch.multiple(state, OPEN_BYTES=min(chunk_bytes, 500), CHUNK_BYTES=chunk_bytes),
        patch.multiple(id_index, TOGETHER_BYTES=together_bytes, SPARE_ROWS=spare_rows),
    ):
        check_against_model(shard, PlainModel(tick_ms), batches)
    if shard.index:
        by_id = shard.read_index().by_id
        assert not by_id.register and not by_id.taken_back


def test_id_and_key_identify_a_message():
    shard = Shard(by_id=True)
    alice, bob, no_key = (Record("x", key, START_MS + 500) for key in ("alice", "bob", None))
    shard.batch([alice, bob, no_key], START_MS)
    shard.batch([cancel("x", "alice"), replacing("x", START_MS + 900, "later", None)], START_MS)
    assert shard.batch([], START_MS + 1000) == [bob, Record("x", None, START_MS + 900, payload="later")]


@pytest.mark.parametrize("ahead_ms", [-500_000, -1, 1, 2000, 500_000])
def test_message_moves_to_any_other_time(ahead_ms):
    """It moves to an earlier or a later tick, to a coarse bucket, or into the past, which means at once."""
    shard = Shard(by_id=True)
    shard.batch([Record("a", "k", START_MS + 10_000)], START_MS)
    moved = Record("a", "k", START_MS + 1000 + ahead_ms, payload="moved")
    out = shard.batch([moved._replace(replace=True)], START_MS + 1000)
    assert out == ([moved] if ahead_ms < 0 else [])
    for at_ms in (START_MS + 10_000, START_MS + 600_000):
        out += shard.batch([], at_ms)
    assert out == [moved]


def test_message_moves_back_to_its_first_time():
    """A duplicate of the first message is dropped, but a replacement for the same time counts."""
    shard = Shard(by_id=True)
    first = Record("a", "k", START_MS + 5000, payload="first")
    shard.batch([first], START_MS)
    shard.batch([replacing("a", START_MS + 9000)], START_MS + 1)
    shard.batch([first], START_MS + 2)
    shard.batch([replacing("a", START_MS + 5000, "back")], START_MS + 3)
    assert shard.batch([], START_MS + 5000) == [first._replace(payload="back")]
    assert shard.batch([], START_MS + 60_000) == []


def test_replacement_after_delivery_needs_another_due():
    """A replacement with the delivered due is a duplicate and changes nothing."""
    shard = Shard(by_id=True)
    first, second = (Record("a", "k", START_MS + ahead_ms) for ahead_ms in (1000, 9000))
    shard.batch([first], START_MS)
    assert shard.batch([], START_MS + 1000) == [first]
    assert shard.batch([second._replace(replace=True)], START_MS + 2000) == []
    assert shard.batch([first._replace(replace=True)], START_MS + 3000) == []
    assert shard.batch([cancel("unknown")], START_MS + 9000) == [second]


def test_cancelled_id_is_dropped_until_the_horizon():
    """A message after its cancel was overtaken by it. To send it again, replace it, or wait for the horizon."""
    shard = Shard(dedup_ms=10_000, by_id=True)
    shard.batch([cancel("a"), cancel("b"), replacing("c", START_MS + 10_000)], START_MS)
    late = [Record(id, "k", START_MS + 60_000) for id in "abc"]
    shard.batch([late[0], late[1]._replace(replace=True), late[2]], START_MS + 9_999)
    assert [message.id for message in shard.batch([], START_MS + 10_000)] == ["c"]
    again = Record("a", "k", START_MS + 70_000)
    shard.batch([again], START_MS + 10_000 + 10_000)
    assert shard.batch([], START_MS + 100_000) == [late[1], again]
    assert shard.batch([], START_MS + 200_000) == [] and not shard.named and shard.next_ms is None


def test_without_a_horizon_a_cancel_counts_within_its_batch():
    shard = Shard(dedup_ms=0, limits=Limits(step_rows=1), by_id=True)
    message = Record("a", "k", START_MS + 500)
    shard.batch([cancel("a"), message], START_MS)
    assert shard.batch([], START_MS + 1000) == []
    assert shard.batch([message], START_MS + 2000) == [message]


def test_duplicate_of_a_pending_replacement_is_dropped_after_the_horizon():
    """The message is held for longer than the horizon. Without `replace`, a duplicate is detected by its tick."""
    shard = Shard(dedup_ms=1000, by_id=True)
    moved = Record("a", "k", START_MS + 100_000, payload="moved")
    shard.batch([moved._replace(replace=True)], START_MS)
    shard.batch([], START_MS + 50_000)
    shard.batch([moved._replace(payload="again", due=moved.due - 1)], START_MS + 60_000)
    assert shard.batch([], START_MS + 100_000) == [moved]


def test_cancel_with_a_due_affects_earlier_messages_only():
    shard = Shard(by_id=True)
    one, two = (replacing(id, START_MS + 500) for id in "ab")
    shard.batch([one, one._replace(replace=False, cancel=True)], START_MS)
    shard.batch([two._replace(replace=False, cancel=True), two], START_MS)
    assert shard.batch([], START_MS + 1000) == [two._replace(replace=False)]


def test_repeated_postponement_costs_two_rows_each_time():
    shard = Shard(by_id=True, dedup_ms=1000)
    for number in range(200):
        now_ms = START_MS + 10_000 * number
        assert shard.batch([replacing("session", now_ms + 3_600_000, str(number))], now_ms) == []
    assert sum(entry.rows for entry in shard.read_index().buckets.values()) == 200 + 199
    (out,) = shard.batch([], START_MS + 10_000_000)
    assert out.payload == "199"


def test_register_of_ids_does_not_grow_with_delivered_messages(monkeypatch):
    monkeypatch.setattr(id_index, "SPARE_ROWS", 100)
    monkeypatch.setattr(id_index, "TOGETHER_BYTES", 4000)
    shard, most = Shard(by_id=True), 0
    far = Record("far", "k", START_MS + 10**9)
    shard.batch([far], START_MS)
    for number in range(40):
        now_ms = START_MS + 1000 * number
        shard.batch([Record(f"m{number}-{i}", "k", now_ms + 3000) for i in range(50)], now_ms)
        most = max(most, sum(entry.rows for entry in shard.read_index().by_id.register.values()))
    assert most < 1000, "of 2,000"
    shard.batch([replacing("far", START_MS + 50_000)], START_MS + 45_000)
    assert shard.batch([], START_MS + 50_000) == [far._replace(due=START_MS + 50_000)]
    assert shard.batch([], far.due) == [] and not shard.read_index().by_id.register


def test_cancel_reads_a_small_part_of_the_register(monkeypatch):
    monkeypatch.setattr(id_index, "TOGETHER_BYTES", 1000)
    shard = Shard(by_id=True)
    messages = [Record(f"m{i}", f"k{i}", START_MS + 60_000 + i) for i in range(5000)]
    shard.batch(messages, START_MS)

    class CountedReads(dict):
        bytes_read = 0

        def __getitem__(self, key):
            self.bytes_read += len(dict.__getitem__(self, key)) * (key[0] == 0)
            return dict.__getitem__(self, key)

    shard.named = CountedReads(shard.named)
    whole = sum(len(chunk) for chunk in shard.named.values())
    shard.batch([cancel("m77", "k77")], START_MS)
    assert 0 < shard.named.bytes_read < whole / 50
    assert len(shard.batch([], START_MS + 70_000)) == 4999


@pytest.mark.parametrize("before", [False, True])
def test_by_id_cannot_be_switched(before):
    shard = Shard(by_id=before)
    shard.batch([Record("a", "k", START_MS + 5000)], START_MS)
    assert shard.read_index().to_json() == shard.index
    shard.settings = replace(shard.settings, by_id=not before)
    with pytest.raises(ValueError, match=f"written with by_id={before}, and this query has by_id={not before}"):
        shard.batch([], START_MS + 5000)


def test_corrupted_id_index_stops_the_batch():
    shard = Shard(by_id=True)
    shard.batch([Record("a", "k", START_MS + 5000)], START_MS)
    [(key, chunk)] = shard.named.items()
    shard.named[key] = chunk[:-20] + bytes([chunk[-20] ^ 1]) + chunk[-19:]
    with pytest.raises(ValueError, match="damaged: its checksum does not match"):
        shard.batch([cancel("a")], START_MS + 1)
