"""hold_until_due in a streaming query, on a clock that the test moves."""

import random
from collections import Counter, defaultdict

import pytest

from clocked_query import SCHEMA, ClockedQuery
from hwheel.spark import dead_letters, hold_until_due
from shard_model import PlainModel, Record

START_MS = 1_795_176_000_000
MALFORMED = [
    ({"id": None, "key": "k0", "due": START_MS}, "id is null"),
    ({"id": "", "key": "k0", "due": START_MS}, "id is empty"),
    ({"id": "bad-1", "key": "k0"}, "due is null"),
    ({"id": "bad-2", "key": "k0", "due": -1}, "due is not between 1970 and 9999: -1 ms"),
    ({"id": "bad-3", "key": "k0", "due": 10**16}, f"due is not between 1970 and 9999: {10**16} ms"),
    ({"id": "bad-4", "key": "k0", "due": "tomorrow"}, "due is null"),
]


def hold(df, **changes):
    return df.transform(hold_until_due, **{"id": "id", "key": "key", "due": "due", "cancel": "cancel", **changes})


def history(chance, batches):
    """Yield (time, records) of batches: messages, duplicates, and cancels before, with, and after their messages."""
    now_ms, known, held_back = START_MS, [], []
    for _ in range(batches):
        now_ms += chance.choice([1, 1, 1, 2, 5, 60]) * 1000
        records = [held_back.pop() for _ in range(min(len(held_back), chance.randint(0, 3)))]
        for _ in range(chance.choice([0, 5, 20])):
            pick = chance.random()
            if known and pick < 0.35:
                record = chance.choice(known[-40:])
                # Sometimes with another key: equal ids of different keys are different messages.
                key = record.key if chance.random() < 0.8 else f"k{chance.randrange(5)}"
                records.append(record._replace(cancel=pick < 0.15, key=key))
                continue
            ahead_ms = chance.choice([-3000, -1, 0, 1, 999, 1000, 2500, 30_000, 100_000, 10**7, 10**12])
            payload = chance.choice(["ä", None, "x" * 99])
            record = Record(f"m{len(known)}", f"k{len(known) % 5}", now_ms + ahead_ms, False, payload)
            known.append(record)
            if pick < 0.9:
                records.append(record)
            else:  # the cancel overtakes its message
                records.append(record._replace(cancel=True))
                held_back.append(record)
        chance.shuffle(records)
        yield now_ms, records


def by_key(rows):
    found = defaultdict(list)
    for id, key, due, payload in rows:
        found[key].append((id, due, payload))
    return found


def test_query_agrees_with_the_model(spark, tmp_path):
    chance, model, counts = random.Random(7), PlainModel(1000), Counter()
    settings = {"dedup": "1000 days", "wheel_size": 4, "shards": 3}
    with ClockedQuery(spark, tmp_path, lambda df: hold(df, **settings)) as query:
        for number, (now_ms, records) in enumerate(history(chance, 36)):
            if number in (12, 25):
                query.restart()
            malformed = [bad for bad, _ in chance.sample(MALFORMED, chance.randint(0, 2))]
            out = query.batch([record._asdict() for record in records] + malformed, now_ms)
            expected = model.batch(records, now_ms)
            found = [(row["id"], row["key"], row["due"], row.get("payload")) for row in out]
            assert by_key(found) == by_key((r.id, r.key, r.due, r.payload) for r in expected), f"batch {number}"
            counts.update(delivered=len(out), dead=len(malformed), cancels=sum(r.cancel for r in records))
    assert counts["delivered"] > 60 and counts["cancels"] > 20 and len(model.pending) > 5
    dead = dead_letters(spark.read.schema(SCHEMA).json(str(tmp_path / "in")), id="id", key="key", due="due").collect()
    assert len(dead) == counts["dead"]
    assert {row.reason for row in dead} <= {reason for _, reason in MALFORMED}


def test_numeric_ids_null_keys_timestamps_and_other_columns(spark, tmp_path):
    """A timestamp is rounded up to milliseconds. All columns but `cancel` pass through unchanged."""

    def transform(df):
        df = df.selectExpr(
            "cast(substr(id, 2) as bigint) as id",
            "key",
            "timestamp_millis(due) + interval 1 microsecond as due",
            "cancel",
            "named_struct('text', payload, 'list', array(1, 2)) as `a.b`",
        )
        held = hold(df, tick="1 second")
        assert held.columns == ["id", "key", "due", "a.b"]
        assert [field.dataType for field in held.schema] == [df.schema[name].dataType for name in held.columns]
        return held

    rows = [{"id": "m1", "key": None, "due": START_MS + 2000, "payload": "p"}, {"id": "m2", "due": START_MS + 1999}]
    with ClockedQuery(spark, tmp_path, transform) as query:
        assert query.batch(rows, START_MS + 1000) == []
        assert [row["id"] for row in query.batch([], START_MS + 2000)] == [2]
        (row,) = query.batch([], START_MS + 3000)
        assert row["id"] == 1 and row["a.b"] == {"text": "p", "list": [1, 2]}
        assert row["due"].startswith("2026-11-20 12:00:02") and row["key"] is None


def test_burst_of_large_messages_goes_out_in_order(spark, tmp_path):
    """One tick of one shard has 96 MB, more than is sorted at a time."""

    def transform(df):
        large = df.selectExpr("id", "key", "due", "cancel", "repeat(payload, 4000000) as large")
        return hold(large, shards=1).selectExpr("id", "due", "length(large) as length", "left(large, 1) as letter")

    sent = [Record(f"m{i}", f"k{i % 3}", START_MS + 1900 - i * 7 % 40, False, "abc"[i % 3]) for i in range(24)]
    with ClockedQuery(spark, tmp_path, transform) as query:
        query.batch([record._asdict() for record in sent[:12]], START_MS)
        cancelled = sent[3]._replace(cancel=True)
        query.batch([record._asdict() for record in [*sent[12:], cancelled]], START_MS + 1000)
        out = query.batch([], START_MS + 2000)
    order = [i for _, i in sorted((record.due, i) for i, record in enumerate(sent) if i != 3)]
    assert [(row["id"], row["letter"], row["length"]) for row in out] == [
        (sent[i].id, sent[i].payload, 4_000_000) for i in order
    ]


def with_payload(*payload):
    return lambda df: hold(df.selectExpr("*", "upper(payload) as title"), payload=payload)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (hold, lambda df: hold(df, tick="2 seconds"), "tick=1000ms.*tick=2000ms"),
        (hold, lambda df: hold(df, by_id=True), "written with by_id=False, and this query has by_id=True"),
        # The state numbers the columns, so values of one column would come out in the other.
        (
            with_payload("title", "payload"),
            with_payload("payload", "title"),
            "column 4 is title string in the checkpoint and payload string in the query, column 5",
        ),
    ],
    ids=["another tick", "by_id", "columns swapped"],
)
def test_checkpoint_of_other_settings_is_refused(spark, tmp_path, first, second, message):
    rows = [{"id": f"m{i}", "key": f"k{i}", "due": START_MS + 10_000, "payload": "p"} for i in range(20)]
    with ClockedQuery(spark, tmp_path, first) as query:
        query.batch(rows, START_MS + 1000)
        query.restart(second)
        with pytest.raises(AssertionError, match=message):
            query.batch(rows, START_MS + 2000)


@pytest.mark.parametrize(("first", "second"), [(2, 4), pytest.param(4, 2, marks=pytest.mark.slow)])
def test_other_shards_are_refused_by_the_first_batch_that_has_rows(spark, tmp_path, first, second):
    """The second batch has rows only for a shard without state."""
    shards = {key: spark.sql(f"select pmod(xxhash64('{key}'), 4)").first()[0] for key in map(str, range(40))}
    low, high = (next(key for key, shard in shards.items() if shard == wanted) for wanted in (0, 3))
    row = {"id": "m", "due": START_MS + 10**9, "payload": "p"}
    with ClockedQuery(spark, tmp_path, lambda df: hold(df, shards=first)) as query:
        query.batch([row | {"key": low}], START_MS + 1000)
        query.restart(lambda df: hold(df, shards=second))
        with pytest.raises(AssertionError, match=f"shards={first}, .* this query has .* shards={second}"):
            query.batch([row | {"key": high}], START_MS + 2000)
        query.restart(lambda df: hold(df, shards=first))
        query.batch([row | {"key": high}], START_MS + 3000)


@pytest.fixture
def stream(spark, tmp_path):
    return spark.readStream.schema(SCHEMA + ", t timestamp, n int").json(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"id": "ID2"}, ValueError, "id: there is no column 'ID2'; the columns are id, key"),
        ({"id": "cancel"}, TypeError, "id: column 'cancel' must be a string, binary or an integer, not boolean"),
        ({"id": None}, TypeError, "id must be the name of a column, not NoneType"),
        ({"key": "nokey"}, ValueError, "key: there is no column 'nokey'"),
        ({"key": "t"}, TypeError, "key: column 't'"),
        ({"due": "payload"}, TypeError, "due: column 'payload' must be a bigint .* or a timestamp, not string"),
        ({"due": "n"}, TypeError, "due: column 'n' .* not int"),
        ({"cancel": "payload"}, TypeError, "cancel: column 'payload' must be a boolean, not string"),
        ({"payload": ["payload", "x"]}, ValueError, "payload: there is no column 'x'"),
        ({"tick": "soon"}, ValueError, "tick must be a number and a unit"),
        ({"tick": 5}, TypeError, "tick must be a str"),
        ({"tick": "0 s"}, ValueError, "tick_ms must be at least 1"),
        ({"wheel_size": 1}, ValueError, "wheel_size"),
        ({"dedup": "a while"}, ValueError, "dedup"),
        ({"shards": 0}, ValueError, "shards must be from 1"),
        ({"shards": "2"}, TypeError, "shards must be an int"),
        ({"shards": True}, TypeError, "shards must be an int"),
        ({"by_id": 1}, TypeError, "by_id must be a bool, not int"),
        ({"replace": "cancel"}, ValueError, "replace requires by_id=True"),
        ({"replace": "payload", "by_id": True}, TypeError, "replace: column 'payload' must be a boolean, not string"),
        ({"id": "due", "by_id": True}, ValueError, "by_id requires a separate column for due, not 'due'"),
    ],
)
def test_invalid_arguments_are_refused_before_the_query_starts(stream, changes, error, message):
    with pytest.raises(error, match=message):
        hold(stream, **changes)


def test_batch_frames_are_refused(spark):
    with pytest.raises(ValueError, match="streaming"):
        hold(spark.createDataFrame([], SCHEMA))


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        (
            "spark.sql.streaming.noDataMicroBatches.enabled",
            "False",
            "noDataMicroBatches.enabled must be true: batches without input",
        ),
        (
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
            "must be org.apache.*RocksDBStateStoreProvider",
        ),
    ],
)
def test_unsuitable_spark_settings_are_refused(spark, stream, setting, value, message):
    before = spark.conf.get(setting)
    spark.conf.set(setting, value)
    try:
        with pytest.raises(ValueError, match=message):
            hold(stream)
    finally:
        spark.conf.set(setting, before)
