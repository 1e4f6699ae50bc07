"""hold_until_due(by_id=True): cancels and replacements by id and key, in a streaming query."""

import random
from collections import Counter

from clocked_query import SCHEMA, ClockedQuery
from hwheel.spark import dead_letters, hold_until_due
from hwheel.spark.deliver.pending import histogram, matching_rows
from shard_model import PlainModel, Record

START_MS = 1_795_176_000_000
WITH_REPLACE = SCHEMA + ", replace boolean"
NAMES = {"id": "id", "key": "key", "due": "due", "cancel": "cancel", "replace": "replace", "by_id": True}
MALFORMED = [
    ({"id": "bad-1", "key": "k0"}, "due is null"),
    ({"id": "bad-2", "key": "k0", "replace": True}, "due is null"),
    ({"id": "bad-3", "key": "k0", "due": 1, "cancel": True, "replace": True}, "cancel and replace are both true"),
    ({"id": None, "key": "k0", "cancel": True}, "id is null"),
]


def hold(df, **changes):
    return df.transform(hold_until_due, **{**NAMES, **changes})


def history(chance, batches):
    """Yield (time, records) of batches. There are few ids, so that several rows often concern the same message."""
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


def held_messages(spark, checkpoint):
    """Return (id, key, due) of the messages that will go out, as `hwheel pending` shows them."""
    rows = matching_rows(spark, checkpoint)
    cancelled = {(row["id"], row["key"], row["tick"]) for row in rows if row["cancelled"]}
    return {
        (row["id"], row["key"], row["due"]) for row in rows if (row["id"], row["key"], row["tick"]) not in cancelled
    }


def test_query_agrees_with_the_model(spark, tmp_path):
    """The input is one partition, like a topic's, so that the order within a batch is that of the file."""
    chance, model, counts = random.Random(11), PlainModel(1000), Counter()
    settings = {"dedup": "1000 days", "wheel_size": 4, "shards": 3}
    query = ClockedQuery(spark, tmp_path, lambda df: hold(df, **settings), WITH_REPLACE)
    with query:
        for number, (now_ms, records) in enumerate(history(chance, 24)):
            if number in (9, 17):
                query.restart()
            malformed = [bad for bad, _ in chance.sample(MALFORMED, chance.randint(0, 2))]
            out = query.batch([record._asdict() for record in records] + malformed, now_ms)
            found = [(row.get("key"), row["due"], row["id"], row["payload"]) for row in out]
            expected = [(r.key, r.due, r.id, r.payload) for r in model.batch(records, now_ms)]
            # Messages without a key have no order among different ids.
            assert sorted(found, key=str) == sorted(expected, key=str), f"batch {number}"
            for key in ("k0", "k1"):
                assert [row for row in found if row[0] == key] == [row for row in expected if row[0] == key]
            counts.update(out=len(out), dead=len(malformed), replacing=sum(r.replace for r in records))
    assert counts["out"] > 20 and counts["replacing"] > 20 and len(model.pending) > 3
    checkpoint = str(tmp_path / "checkpoint")
    assert sum(histogram(spark, checkpoint, now_ms).values()) == len(model.pending)
    assert held_messages(spark, checkpoint) == {(id, key, due) for (id, key, _), (due, _, _) in model.pending.items()}
    dead = dead_letters(spark.read.schema(WITH_REPLACE).json(str(tmp_path / "in")), **NAMES).collect()
    assert len(dead) == counts["dead"]
    assert {(row.id, row.reason) for row in dead} <= {(bad["id"], reason) for bad, reason in MALFORMED}


def test_numeric_ids_binary_keys_and_timestamps(spark, tmp_path):
    """A tombstone has a due of the messages' type, and no payload."""

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

    rows = [
        {"id": id, "key": key, "due": START_MS + 1500, "payload": "p"} for id in ("m1", "m2") for key in ("00", "FF")
    ]
    with ClockedQuery(spark, tmp_path, transform, WITH_REPLACE) as query:
        query.batch(rows, START_MS)
        later = {"id": "m1", "key": "FF", "due": START_MS + 2500, "replace": True, "payload": "later"}
        query.batch([later, {"id": "m2", "key": "00", "cancel": True}], START_MS + 1000)
        out = query.batch([], START_MS + 2000)
        assert sorted((row["number"], row["bytes"]) for row in out) == [(1, "AA=="), (2, "/w==")]
        (row,) = query.batch([], START_MS + 3000)
        assert (row["number"], row["bytes"], row["a.b"]["text"]) == (1, "/w==", "later")
