"""Cancels and replacements by id and key, in Spark itself."""

import json
import random
import time
from collections import Counter

import pytest

import chaos
from clocked_query import SCHEMA, ClockedQuery
from hwheel.spark import dead_letters, hold_until_due
from hwheel.spark.deliver.delivery import start_delivery
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.pending import histogram, messages
from hwheel.spark.deliver.settings import CheckpointOptionsError, WheelOptions, kept_options
from hwheel.spark.deliver.source import Source
from plain_model import PlainModel, Record

START_MS = 1_795_176_000_000
WITH_REPLACE = SCHEMA + ", replace boolean"
NAMES = {"id": "id", "key": "key", "due": "due", "cancel": "cancel", "replace": "replace", "by_id": True}
MALFORMED = [
    ({"id": "bad-1", "key": "k0"}, "due is null"),
    ({"id": "bad-2", "key": "k0", "replace": True}, "due is null"),
    (
        {"id": "bad-3", "key": "k0", "due": START_MS, "cancel": True, "replace": True},
        "cancel and replace are both true",
    ),
    ({"id": None, "key": "k0", "cancel": True}, "id is null"),
]


def hold(df, **changes):
    return df.transform(hold_until_due, **{**NAMES, **changes})


def history(chance, batches):
    """(time, records) of batches, about few ids, so that what is said of one meets."""
    now_ms, known = START_MS, []
    for _ in range(batches):
        now_ms += chance.choice([1, 1, 2, 5, 30]) * 1000
        records = []
        for _ in range(chance.choice([0, 4, 12])):
            pick, id, key = chance.random(), f"\u00e4{chance.randrange(25)}", chance.choice(["k0", "k1", None])
            due_ms = now_ms + chance.choice([-3000, 0, 1000, 5000, 20_000, 10**6, 10**7])
            if pick < 0.4 or not known:
                known.append(Record(id, key, due_ms, False, f"p{len(known)}"))
                records.append(known[-1])
            elif pick < 0.55:
                records.append(chance.choice(known[-20:])._replace(cancel=chance.random() < 0.5))
            elif pick < 0.7:
                records.append(chance.choice(known[-20:])._replace(due=None, cancel=True))
            else:
                known.append(chance.choice(known[-20:])._replace(due=due_ms, payload=f"p{len(known)}"))
                records.append(known[-1]._replace(replace=True))
        yield now_ms, records


def test_the_model_over_many_batches_and_restarts(spark, tmp_path):
    """One partition of input, as a topic's, so that the order within a batch is that of the file."""
    chance, model, counts = random.Random(11), PlainModel(1000), Counter()
    query = None
    try:
        for number, (now_ms, records) in enumerate(history(chance, 24)):
            if number in (0, 9, 17):
                if query:
                    query.stop()
                query = ClockedQuery(
                    spark, tmp_path, lambda df: hold(df, dedup="1000 days", wheel_size=4, shards=3), WITH_REPLACE
                )
            malformed = [bad for bad, _ in chance.sample(MALFORMED, chance.randint(0, 2))]
            out = query.batch([record._asdict() for record in records] + malformed, now_ms)
            found = [(row.get("key"), row["due"], row["id"], row["payload"]) for row in out]
            expected = [(r.key, r.due, r.id, r.payload) for r in model.batch(records, now_ms)]
            # With null for a key each id is in order with none.
            assert sorted(found, key=str) == sorted(expected, key=str), f"batch {number}"
            for key in ("k0", "k1"):
                assert [row for row in found if row[0] == key] == [row for row in expected if row[0] == key]
            counts.update(out=len(out), dead=len(malformed), replacing=sum(r.replace for r in records))
        query.stop()
        checkpoint = str(tmp_path / "checkpoint")
        assert sum(histogram(spark, checkpoint, now_ms).values()) == len(model.pending)
        pending = {(id, key, due) for (id, key, _), (due, _, _) in model.pending.items()}
        for id in {id for id, _, _ in pending}:
            rows = messages(spark, checkpoint, id)
            gone = {(row["key"], row["tick"]) for row in rows if row["cancelled"]}
            held = {(id, row["key"], row["due"]) for row in rows if (row["key"], row["tick"]) not in gone}
            assert held == {one for one in pending if one[0] == id}
    finally:
        if query:
            query.stop()
    assert counts["out"] > 20 and counts["replacing"] > 20 and len(model.pending) > 3, "it has all"
    dead = dead_letters(spark.read.schema(WITH_REPLACE).json(str(tmp_path / "in")), **NAMES).collect()
    assert Counter(row.reason for row in dead).total() == counts["dead"]
    assert {(row.id, row.reason) for row in dead} <= {(bad["id"], reason) for bad, reason in MALFORMED}


def test_timestamps_and_ids_and_keys_of_any_type(spark, tmp_path):
    """A tombstone has a due of the type of the messages, and nothing for a payload."""

    def transform(df):
        df = df.selectExpr(
            "cast(substr(id, 2) as bigint) as number",
            "unhex(key) as bytes",
            "timestamp_millis(due) + interval 1 microsecond as at",
            "cancel",
            "replace",
            "named_struct('text', payload, 'list', array(1, 2)) as `a.b`",
        )
        held = hold(df, id="number", key="bytes", due="at")
        assert held.columns == ["number", "bytes", "at", "a.b"]
        return held

    query = ClockedQuery(spark, tmp_path, transform, WITH_REPLACE)
    try:
        rows = [
            {"id": f"m{id}", "key": key, "due": START_MS + 1500, "payload": "p"}
            for id in (1, 2)
            for key in ("00", "FF")
        ]
        query.batch(rows, START_MS)
        later = {"id": "m1", "key": "FF", "due": START_MS + 2500, "replace": True, "payload": "later"}
        query.batch([later, {"id": "m2", "key": "00", "cancel": True}], START_MS + 1000)
        out = query.batch([], START_MS + 2000)
        assert sorted((row["number"], row["bytes"]) for row in out) == [(1, "AA=="), (2, "/w==")]
        (row,) = query.batch([], START_MS + 3000)
        assert (row["number"], row["bytes"], row["a.b"]["text"]) == (1, "/w==", "later")
    finally:
        query.stop()


@pytest.mark.parametrize("before", [False, True])
def test_it_is_neither_switched_on_nor_off(spark, tmp_path, before):
    def transform(by_id):
        return lambda df: hold(df, by_id=by_id, replace=None)

    rows = [{"id": f"m{i}", "key": f"k{i}", "due": START_MS + 10_000} for i in range(9)]
    query = ClockedQuery(spark, tmp_path, transform(before))
    query.batch(rows, START_MS)
    query.stop()
    query = ClockedQuery(spark, tmp_path, transform(not before))
    try:
        with pytest.raises(AssertionError, match=f"written with by_id={before}, and this query has by_id={not before}"):
            query.batch(rows, START_MS + 1000)
    finally:
        query.stop()


def rows_of(directory):
    return [json.loads(line) for file in directory.glob("*.json") for line in file.read_text().splitlines()]


def test_a_delivery_by_id(spark, tmp_path):
    """From lines of JSON; what is malformed goes to the dead letters, whole."""
    far = 10**12 * 4
    good = [
        {"id": "moved", "key": "k", "due": far},
        {"id": "moved", "key": "k", "due": 1000, "replace": True, "payload": "now"},
        {"id": "gone", "key": "k", "due": 1000},
        {"id": "gone", "key": "k", "cancel": True, "due": None},
        {"id": "gone", "key": "another", "due": 1000, "replace": False},
        {"id": "plain", "due": 1000, "replace": None},
        {"id": "put off", "key": "k", "due": 1000},
        {"id": "put off", "key": "k", "due": far, "replace": True},
    ]
    malformed = {
        '{"id": "x1", "due": 1000, "replace": "true"}': 'replace is neither true nor false: "true"',
        '{"id": "x2", "due": 1000, "replace": 1}': "replace is neither true nor false: 1",
        '{"id": "x3", "due": 1000, "replace": true, "replace": true}': "replace is there twice",
        '{"id": "x4", "due": 1000, "replace": true, "cancel": true}': "cancel and replace are both true",
        '{"id": "x5", "replace": true}': "due is null",
        '{"id": "x6"}': "due is null",
        '{"id": "x7", "due": "now", "cancel": true}': 'due is no whole number of 64 bits: "now"',
        '{"id": "", "cancel": true}': "id is empty",
    }
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("\n".join([*map(json.dumps, good), *malformed]))
    options = WheelOptions("1 second", 16, 2, 2, "10 minutes", by_id=True)
    delivery = start_delivery(
        Source(spark, str(tmp_path / "in"), by_id=True),
        *(str(tmp_path / name) for name in ("out", "dead")),
        "json",
        str(tmp_path / "state"),
        options,
        "200 milliseconds",
    )
    try:
        give_up = time.monotonic() + chaos.PATIENCE_S
        while not (delivery.sink.rows and delivery.dead_sink.rows):
            assert delivery.error() is None and time.monotonic() < give_up
            time.sleep(0.05)
    finally:
        delivery.stop()
    out = sorted((row["id"], row.get("key"), row["due"], row.get("payload")) for row in rows_of(tmp_path / "out"))
    assert out == [("gone", "another", 1000, None), ("moved", "k", 1000, "now"), ("plain", None, 1000, None)]
    assert {row["line"]: row["reason"] for row in rows_of(tmp_path / "dead")} == malformed


def test_the_command_keeps_it_with_the_checkpoint(spark, tmp_path):
    defaults = WheelOptions("1 second", 16, 2, 2, "10 minutes")
    for name, by_id in (("on", True), ("off", None)):
        checkpoint = Directory(spark, str(tmp_path / name))
        assert kept_options(checkpoint, {"by_id": by_id}, defaults).by_id is bool(by_id)
        assert kept_options(checkpoint, {"by_id": None}, defaults).by_id is bool(by_id), "left out, it is as it was"
        with pytest.raises(CheckpointOptionsError, match=f"made with{'' if by_id else 'out'} --by-id: this stays"):
            kept_options(checkpoint, {"by_id": not by_id}, defaults)
    with pytest.raises(TypeError, match="by_id must be true or false, not 1"):
        WheelOptions("1 second", 16, 2, 2, "10 minutes", by_id=1)
