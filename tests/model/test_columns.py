"""Functions over columns compared with plain Python, and place() compared with TimingWheel."""

import doctest
from array import array

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hwheel import TimerTask, TimingWheel
from hwheel_core import group, order_by, place, survivors
from sampling import search_settings

LAST_MS = 2**63 - 1
MODEL = search_settings(400)
ticks = st.sampled_from([1, 2, 3, 10, 1000, 86_400_000, 2**40])
sizes = st.sampled_from([2, 3, 5, 20, 256, 1000])
clocks = st.just(0) | st.integers(0, 10**4) | st.just(1_795_176_000_123) | st.integers(2**62, LAST_MS)
few = st.integers(-2, 2)
columns = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.tuples(*[few | st.integers(-(2**63), LAST_MS)] * width), max_size=60).map(
        lambda rows: (rows, [array("q", [row[i] for row in rows]) for i in range(width)])
    )
)


def bucket_of(wheel, task):
    for level in wheel.snapshot().levels:
        for bucket in level.buckets:
            if any(held is task for held in bucket.tasks):
                return bucket.level, bucket.expiration_ms
    raise AssertionError("the wheel does not hold the task")


@MODEL
@given(tick_ms=ticks, wheel_size=sizes, now_ms=clocks, data=st.data())
def test_place_agrees_with_the_wheel(tick_ms, wheel_size, now_ms, data):
    reach = tick_ms * wheel_size ** data.draw(st.integers(0, 4))
    ahead = st.integers(-3, 3) | st.integers(0, 3 * reach) | st.integers(-2, 2).map(lambda near: reach + near)
    times = data.draw(st.lists(ahead.map(lambda ms: max(0, min(now_ms + ms, LAST_MS))) | st.just(LAST_MS), max_size=20))
    wheel = TimingWheel(tick_ms, wheel_size, now_ms)
    levels, buckets = place(array("q", times), now_ms, tick_ms, wheel_size)
    for time_ms, level, bucket_ms in zip(times, levels, buckets, strict=True):
        task = TimerTask(0)
        assert wheel.add(task, time_ms) == (level > 0)
        if level:
            assert (level, bucket_ms) == bucket_of(wheel, task)
        else:
            assert bucket_ms == time_ms // tick_ms * tick_ms


@MODEL
@given(
    tick_ms=st.sampled_from([1, 7, 1000]),
    wheel_size=st.sampled_from([2, 3, 20]),
    start_ms=st.integers(0, 10**6),
    delays=st.lists(st.integers(0, 10**6), max_size=20),
)
def test_repeated_placement_agrees_with_the_cascades_of_the_wheel(tick_ms, wheel_size, start_ms, delays):
    wheel = TimingWheel(tick_ms, wheel_size, start_ms)
    tasks = [TimerTask(0) for _ in delays]
    times = [start_ms + delay for delay in delays]
    pending = [i for i, task in enumerate(tasks) if wheel.add(task, times[i])]
    levels, buckets = place(array("q", times), start_ms, tick_ms, wheel_size)
    held = {i: (levels[i], buckets[i]) for i in pending}
    while held:
        now_ms = min(bucket_ms for _, bucket_ms in held.values())
        assert wheel.next_expiration_ms == now_ms
        due = [i for i, (_, bucket_ms) in held.items() if bucket_ms <= now_ms]
        again, buckets = place(array("q", [times[i] for i in due]), now_ms, tick_ms, wheel_size)
        for i, level, bucket_ms in zip(due, again, buckets, strict=True):
            before = held.pop(i)
            if level:
                assert level < before[0], "a cascade moves down"
                held[i] = level, bucket_ms
        wheel.poll(now_ms)
        assert {i for i in pending if tasks[i].pending} == {*held}
    assert len(wheel) == 0


@MODEL
@given(columns)
def test_group_gathers_equal_rows_in_order(given_rows):
    rows, arrays = given_rows
    order, starts = group(*arrays)
    groups = {}
    for i, row in enumerate(rows):
        groups.setdefault(row, []).append(i)
    assert [list(order[a:b]) for a, b in zip(starts[:-1], starts[1:], strict=True)] == list(groups.values())
    assert starts[0] == 0 and starts[-1] == len(rows)


@MODEL
@given(columns)
def test_order_by_is_a_stable_sort(given_rows):
    rows, arrays = given_rows
    assert list(order_by(*arrays)) == sorted(range(len(rows)), key=rows.__getitem__)


@MODEL
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.booleans()), max_size=60), st.randoms())
@example([(1, 1, False), (1, 1, True)], None)
def test_survivors_are_the_first_of_equal_rows_without_a_tombstone(rows, random):
    order = list(range(len(rows)))
    if random:
        random.shuffle(order)
        order = order[: random.randint(0, len(order))]
    dead = {row[:2] for row in rows if row[2]}
    expected, seen = [], set()
    for i in order:
        if rows[i][:2] not in dead | seen:
            seen.add(rows[i][:2])
            expected.append(i)
    first, second, tombstones = ([row[i] for row in rows] for i in range(3))
    found = survivors(array("q", order), array("q", tombstones), array("q", first), array("q", second))
    assert list(found) == expected


def test_columns_of_numpy_and_arrow_and_with_strides():
    values = [5, 1, 3, 1]
    expected = order_by(array("q", values))
    assert order_by(np.array(values)) == order_by(pa.array(values)) == expected
    assert order_by(np.array([5, 9, 1, 9, 3, 9, 1, 9])[::2]) == expected


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: place([1], 0, 1, 20), TypeError, "times_ms"),
        (lambda: place(array("i", [1]), 0, 1, 20), TypeError, "times_ms"),
        (lambda: place(array("q"), 0, 0, 20), ValueError, "tick_ms"),
        (lambda: place(array("q"), 0, 1, 1), ValueError, "wheel_size"),
        (lambda: place(array("q"), -1, 1, 20), ValueError, "now_ms"),
        (lambda: place(array("q"), 0, 1, 2**63), OverflowError, "wheel_size"),
        (lambda: group(), ValueError, "columns"),
        (lambda: group(array("q", [1]), array("q")), ValueError, "the same length"),
        (lambda: order_by(pa.array([1, None])), ValueError, "null"),
        (lambda: order_by(*[array("q")] * 9), ValueError, "1 to 8"),
        (lambda: survivors(array("q", [1]), array("q", [0]), array("q", [0])), IndexError, "order"),
        (lambda: survivors(array("q", [-1]), array("q", [0]), array("q", [0])), IndexError, "order"),
        (lambda: survivors(array("q"), array("q", [0]), array("q")), ValueError, "tombstones"),
    ],
)
def test_invalid_arguments(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_many_rows():
    count = 200_000
    random = np.random.default_rng(1)
    first, second = random.integers(0, 1000, count), random.integers(-(2**60), 2**60, count)
    assert list(order_by(first, second)) == np.lexsort((second, first)).tolist()
    order, starts = group(first)
    assert np.array_equal(np.bincount(first)[np.array(first)[np.array(order)[np.array(starts)[:-1]]]], np.diff(starts))
    assert len(starts) == 1001


@pytest.mark.parametrize("function", [place, group, order_by, survivors], ids=lambda function: function.__name__)
def test_docstring_examples(function):
    runner = doctest.DocTestRunner()
    for found in doctest.DocTestFinder().find(function, function.__name__, globs={function.__name__: function}):
        runner.run(found)
    assert runner.summarize(verbose=False) == (0, runner.tries) and runner.tries
