"""The lookup index: its answers are those of the state, whatever was merged, interrupted, or restored."""

import json
import random
import shutil
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from deliveries import WHEEL, put_lines
from hwheel.cli.common import CommandError
from hwheel.cli.main import main
from hwheel.lookup import segments
from hwheel.lookup.reader import HOUR_MS, INDEX, HeldIndex, NoIndexError
from hwheel.lookup.segments import NAME, open_segments, segment_name, tidy, write_segment
from hwheel.spark.deliver.checkpoint import MESSAGES, last_batch
from hwheel.spark.deliver.delivery import IndexKeeper
from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.held_index import continues
from hwheel.spark.deliver.pending import matching_rows, rows_held
from hwheel.spark.deliver.sink import DirectorySink
from hwheel.spark.shard.arrivals import hashed

FAR_MS = 4 * 10**12
CLOCK_MS = 10 * HOUR_MS + 500


# --- segments ---------------------------------------------------------------------------------------------------------


def rows_table(rows):
    names = ["id", "key", "due", "tick", "cancelled", "by_id", "sequence", "p0"]
    types = [pa.binary(), pa.binary(), pa.int64(), pa.int64(), pa.bool_(), pa.bool_(), pa.int64(), pa.string()]
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(one, kind) for one, kind in zip(columns, types, strict=True)], names=names)


def random_rows(chance, count, first):
    for number in range(first, first + count):
        key = chance.choice([None, b"k%d" % chance.randrange(20)])
        tick = chance.randrange(9 * HOUR_MS, 14 * HOUR_MS, 1000)
        yield (b"m%d" % chance.randrange(200), key, tick - 1, tick, False, False, number, str(number))


def put_checkpoint(directory, committed, clock_ms):
    """Write what the reader needs of a checkpoint."""
    for name, text in {"commits": "", "offsets": f'v1\n{{"batchTimestampMs":{clock_ms}}}\n'}.items():
        (directory / MESSAGES / name).mkdir(parents=True, exist_ok=True)
        (directory / MESSAGES / name / str(committed)).write_text(text)


def check_answers(checkpoint, rows, clock_ms):
    index = HeldIndex.open(checkpoint)
    held = [row for row in rows if row[3] > clock_ms]
    for place, name in enumerate(("id", "key")):
        for value in sorted({row[place] for row in rows} - {None})[::20]:
            found = index.matching_rows(**{"id": None, "key": None, name: value.decode()})
            assert sorted(row["payload"][0] for row in found) == sorted(row[7] for row in held if row[place] == value)
    by_hour, later = index.rows_by_hour(3)
    starts = [clock_ms // HOUR_MS * HOUR_MS + hour * HOUR_MS for hour in range(3)]
    expected = [sum(start <= row[3] < start + HOUR_MS for row in held) for start in starts]
    assert ([*by_hour], [*by_hour.values()]) == (starts, expected)
    assert later == len(held) - sum(expected)


@pytest.mark.parametrize("large_bytes", [1000, 30_000])
def test_segments_answer_like_a_list(tmp_path, monkeypatch, large_bytes):
    monkeypatch.setattr(segments, "MERGE_AT", 3)
    monkeypatch.setattr(segments, "LARGE_BYTES", large_bytes)
    monkeypatch.setattr(segments, "MERGE_BYTES", 4 * large_bytes)
    chance, rows = random.Random(large_bytes), []
    (tmp_path / INDEX).mkdir()
    clock_ms, tiers, merges = CLOCK_MS, set(), 0
    for batch_id in range(15):
        put_checkpoint(tmp_path, batch_id, clock_ms)
        for label in range(2):
            added = [*random_rows(chance, chance.randrange(1, 30), len(rows))]
            rows += added
            write_segment(tmp_path / INDEX, segment_name(0, batch_id, str(label)), hashed(rows_table(added)))
        check_answers(tmp_path, rows, clock_ms)
        while tidy(tmp_path / INDEX, batch_id, clock_ms):
            merges += 1
        check_answers(tmp_path, rows, clock_ms)
        tiers |= {one.tier for one in open_segments(tmp_path / INDEX)}
        clock_ms += chance.choice([0, 1000, 20_000, HOUR_MS // 10])
    assert merges > 2 and len(tiers) > 1
    tidy(tmp_path / INDEX, 15, 15 * HOUR_MS)
    assert not [*(tmp_path / INDEX).iterdir()], "segments whose rows were all delivered are deleted"


def test_rows_count_once_after_a_crash_during_a_merge(tmp_path, monkeypatch):
    index = tmp_path / INDEX
    index.mkdir()
    put_checkpoint(tmp_path, 1, CLOCK_MS)
    rows = [*random_rows(random.Random(1), 50, 0)]
    for batch_id, part in enumerate((rows[:20], rows[20:])):
        write_segment(index, segment_name(0, batch_id, "s"), hashed(rows_table(part)))
    shutil.copytree(index, tmp_path / "copy")
    segments.merge(index, open_segments(index), CLOCK_MS)
    shutil.copytree(tmp_path / "copy", index, dirs_exist_ok=True)
    assert len([*index.iterdir()]) == 3
    check_answers(tmp_path, rows, CLOCK_MS)
    tidy(index, 1, CLOCK_MS)
    assert len([*index.iterdir()]) == 1
    check_answers(tmp_path, rows, CLOCK_MS)


def test_segments_of_batches_that_are_not_committed_are_ignored(tmp_path):
    index = tmp_path / INDEX
    index.mkdir()
    rows = [*random_rows(random.Random(2), 50, 0)]
    for batch_id, part in enumerate((rows[:20], rows[20:])):
        write_segment(index, segment_name(0, batch_id, "s"), hashed(rows_table(part)))
    with pytest.raises(NoIndexError, match="has no completed batch"):
        HeldIndex.open(tmp_path)
    put_checkpoint(tmp_path, 0, CLOCK_MS)
    check_answers(tmp_path, rows[:20], CLOCK_MS)


def test_index_of_an_older_or_newer_state_does_not_continue(tmp_path):
    def put(tier, batch_id):
        write_segment(
            tmp_path, segment_name(tier, batch_id, "s"), hashed(rows_table(random_rows(random.Random(3), 5, 0)))
        )

    put(1, 3)
    put(0, 4)
    assert continues(tmp_path, 4)
    assert continues(tmp_path, 3) and [one.batch_id for one in open_segments(tmp_path)] == [3]
    assert not continues(tmp_path, 2)
    put(0, 5)
    assert not continues(tmp_path, 3)
    (tmp_path / segment_name(0, 5, "s")).write_bytes(b"damaged")
    assert not continues(tmp_path, 5)


def test_hash_collisions_are_no_matches(tmp_path, monkeypatch):
    monkeypatch.setattr(segments.zlib, "crc32", lambda value: 7)
    rows = [*random_rows(random.Random(4), 40, 0)]
    (tmp_path / INDEX).mkdir()
    put_checkpoint(tmp_path, 0, CLOCK_MS)
    write_segment(tmp_path / INDEX, segment_name(0, 0, "s"), hashed(rows_table(rows)))
    check_answers(tmp_path, rows, CLOCK_MS)


# --- a job ------------------------------------------------------------------------------------------------------------


def lines_of(chance, names):
    """Return random messages and cancels, of few ids so that they meet."""
    for name in names:
        id, key, due = f"m{chance.randrange(12)}", f"k{chance.randrange(3)}", FAR_MS + chance.randrange(3000)
        kind = chance.randrange(6)
        if kind == 0:
            yield {"id": id, "key": key, "cancel": True}
        elif kind == 1:
            yield {"id": id, "key": key, "due": due, "replace": True, "payload": name}
        elif kind == 2:
            yield {"id": id, "key": key, "due": due, "cancel": True}
        else:
            yield {"id": id, "key": None if kind == 3 else key, "due": due, "payload": name}
    yield {"id": f"due {names[0]}", "key": "k1", "due": 1000}


def check_same_answers(spark, checkpoint):
    """Compare the answers of the index with those of the state."""
    index, every = HeldIndex.open(checkpoint), matching_rows(spark, str(checkpoint / MESSAGES))
    for id, key in [*((f"m{number}", None) for number in range(12)), (None, "k1"), ("m1", "k2"), ("due a-0", None)]:
        rows = [row for row in every if id in (None, row["id"]) and key in (None, row["key"])]
        assert index.matching_rows(id, key) == rows, (id, key)
    assert len(every) > 20
    by_hour, later = index.rows_by_hour(2)
    assert sum(by_hour.values()) + later == rows_held(spark, str(checkpoint / MESSAGES))


def test_index_answers_like_the_state(deliveries, spark, tmp_path, monkeypatch):
    """Also after an interrupted batch, a restart, merges, and a creation from the state."""
    monkeypatch.setattr(segments, "MERGE_AT", 3)
    chance, state = random.Random(5), tmp_path / "state"
    wheel = replace(WHEEL, by_id=True)

    def run(name, **more):
        put_lines(tmp_path / "in", f"{name}.json", *lines_of(chance, [f"{name}-{n}" for n in range(40)]))
        before = last_batch(Directory(spark, str(state / MESSAGES)), "commits")
        delivery = deliveries.start(wheel=wheel, **more)
        query = Directory(spark, str(state / MESSAGES))
        deliveries.tend(delivery, lambda: delivery.sink.rows and last_batch(query, "commits") > before)
        return delivery

    run("a").stop()
    assert not (state / INDEX).exists()
    run("b", index=True).stop()  # creates the index with the rows of a
    check_same_answers(spark, state)

    finish, cut_off = DirectorySink.finish, []

    def crash(self, batch, batch_id, any_rows):
        if self.path.endswith("out") and any_rows and not cut_off:
            cut_off.append(batch_id)
            raise RuntimeError("interrupted")
        finish(self, batch, batch_id, any_rows)

    monkeypatch.setattr(DirectorySink, "finish", crash)
    put_lines(tmp_path / "in", "c.json", *lines_of(chance, [f"c-{n}" for n in range(40)]))
    deliveries.failure_of(deliveries.start(wheel=wheel))
    assert cut_off and any(int(NAME.fullmatch(one.name)["batch"]) == cut_off[0] for one in (state / INDEX).iterdir())
    check_same_answers(spark, state)  # without the interrupted batch
    run("d").stop()
    keeper = IndexKeeper(Directory(spark, str(state / MESSAGES)), state / INDEX)
    keeper.stop()
    while keeper.tidy():
        pass
    assert max(one.tier for one in open_segments(state / INDEX)) > 0
    check_same_answers(spark, state)
    run("e", index=False).stop()
    assert not (state / INDEX).exists()


def test_command_reads_the_index_without_spark(deliveries, tmp_path, monkeypatch, capsys):
    now_ms = int(time.time() * 1000)
    put_lines(
        tmp_path / "in",
        "a.json",
        {"id": "m1", "key": "k", "due": FAR_MS, "payload": "tea"},
        {"id": "m2", "key": "k", "due": now_ms + 50 * HOUR_MS},
        {"id": "m2", "key": "k", "due": now_ms + 50 * HOUR_MS, "cancel": True},
    )
    deliveries.run(index=True)

    started = []

    def no_spark(*_):
        started.append(True)
        raise CommandError("Spark was started")

    monkeypatch.setattr("hwheel.cli.pending.spark_session", no_spark)

    def ask(*arguments):
        return main(["pending", "--checkpoint", str(tmp_path / "state"), *arguments]), capsys.readouterr().out

    assert ask("--id", "m1") == (0, "message m1  key k  due 4000000000000 ms (2096-10-02 07:06:40 UTC)  tea\n")
    assert ask("--id", "m2")[0] == 1, "cancelled"
    assert ask("--id", "m3") == (1, "m3: nothing pending\n")
    status, shown = ask("--key", "k", "--due-before", "60h", "--json")
    assert status == 1 and [row["id"] for row in json.loads(shown)] == ["m2", "m2"]
    status, shown = ask("--by-hour", "--json")
    hour = str((now_ms + 50 * HOUR_MS + 1000) // HOUR_MS * HOUR_MS)
    assert (status, json.loads(shown)) == (0, {"rows": 3, "by_hour": {hour: 2}, "later": 1})
    assert ask("--by-hour")[1].splitlines()[0] == "3 rows pending"
    shutil.rmtree(tmp_path / "state" / INDEX)
    assert main(["pending", "--checkpoint", str(tmp_path / "state"), "--by-hour"]) == 2
    assert not started
    assert ask("--id", "m1")[0] == 2 and started
