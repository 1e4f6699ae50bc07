"""call_many takes every one-dimensional buffer of int64, and no other."""

import gc
from array import array

import numpy as np
import pyarrow as pa
import pytest

from hwheel import ManualTimer

DELAYS_MS = [30, 10, 20, 10, 0]
IN_ORDER = [4, 1, 3, 2, 0]


def read_only(values):
    values = np.array(values, dtype=np.int64)
    values.flags.writeable = False
    return values


def strided(values, stride):
    """A view of every stride-th element; a negative stride looks backwards."""
    room = np.full(len(values) * abs(stride), 10**6, dtype=np.int64)
    room[:: abs(stride)] = values[::-1] if stride < 0 else values
    view = room[:: abs(stride)]
    return view[::-1] if stride < 0 else view


SAME_DELAYS = {
    "array q": array("q", DELAYS_MS),
    "numpy": np.array(DELAYS_MS, dtype=np.int64),
    "numpy longlong": np.array(DELAYS_MS, dtype=np.longlong),
    "numpy read-only": read_only(DELAYS_MS),
    "numpy strided": strided(DELAYS_MS, 3),
    "numpy reversed": strided(DELAYS_MS, -1),
    "numpy strided backwards": strided(DELAYS_MS, -2),
    "numpy column": np.array([[delay_ms, 7] for delay_ms in DELAYS_MS], dtype=np.int64)[:, 0],
    "numpy field": np.array([(delay_ms, 7.0) for delay_ms in DELAYS_MS], dtype=[("ms", "i8"), ("other", "f8")])["ms"],
    "numpy slice": np.array([99, *DELAYS_MS, 99], dtype=np.int64)[1:-1],
    "memoryview": memoryview(array("q", DELAYS_MS)),
    "memoryview read-only": memoryview(array("q", DELAYS_MS)).toreadonly(),
    "memoryview of bytes": memoryview(array("q", DELAYS_MS).tobytes()).cast("q"),
    "memoryview strided": memoryview(array("q", [v for delay_ms in DELAYS_MS for v in (delay_ms, 99)]))[::2],
    "arrow": pa.array(DELAYS_MS, type=pa.int64()),
    "arrow slice": pa.array([99, *DELAYS_MS, 99], type=pa.int64()).slice(1, len(DELAYS_MS)),
    "arrow slice without the null": pa.array([None, *DELAYS_MS, None], type=pa.int64()).slice(1, len(DELAYS_MS)),
}


@pytest.mark.parametrize("delays_ms", SAME_DELAYS.values(), ids=SAME_DELAYS.keys())
def test_every_buffer_of_int64_gives_the_same_timers(delays_ms, ran):
    timer = ManualTimer()
    batch = timer.call_many(delays_ms, lambda indices: ran.append((round(timer.time() * 1000), list(indices))))
    assert (len(batch), batch.pending, len(timer)) == (5, 5, 5)
    timer.advance(0.03)
    assert ran == [(0, [4]), (10, [1, 3]), (20, [2]), (30, [0])]


@pytest.mark.parametrize("delays_ms", SAME_DELAYS.values(), ids=SAME_DELAYS.keys())
def test_every_buffer_of_int64_will_do_as_indices(delays_ms):
    timer = ManualTimer()
    batch = timer.call_many(array("q", range(1, 100)), print)
    assert batch.cancel(delays_ms) == 4  # 10 stands in it twice
    assert batch.pending == 95
    assert {0, 10, 20, 30}.isdisjoint(batch.indices())


EMPTY = {
    "array": array("q"),
    "numpy": np.array([], dtype=np.int64),
    "numpy strided": np.array([1, 2, 3], dtype=np.int64)[3::2],
    "memoryview": memoryview(array("q")),
    "arrow": pa.array([], type=pa.int64()),
    "arrow slice": pa.array([1, 2], type=pa.int64()).slice(1, 0),
}


@pytest.mark.parametrize("delays_ms", EMPTY.values(), ids=EMPTY.keys())
def test_an_empty_batch_is_over_before_it_began(delays_ms, ran):
    timer = ManualTimer()
    batch = timer.call_many(delays_ms, ran.append)
    assert (len(batch), batch.pending, list(batch.indices()), batch.callback) == (0, 0, [], None)
    assert batch.cancel() == 0
    assert batch.cancel(delays_ms) == 0
    timer.advance(0.01)
    assert ran == []
    assert timer.stats()[:3] == (0, 0, 0)
    assert timer.close() == []


def released_memoryview():
    view = memoryview(array("q", DELAYS_MS))
    view.release()
    return view


REFUSED = {
    "list": list(DELAYS_MS),
    "tuple": tuple(DELAYS_MS),
    "range": range(5),
    "None": None,
    "int": 5,
    "str": "12345678",
    "bytes": bytes(40),
    "bytearray": bytearray(40),
    "array of int": array("i", DELAYS_MS),
    "array of unsigned": array("Q", DELAYS_MS),
    "array of double": array("d", DELAYS_MS),
    "numpy int32": np.array(DELAYS_MS, dtype=np.int32),
    "numpy uint64": np.array(DELAYS_MS, dtype=np.uint64),
    "numpy float64": np.array(DELAYS_MS, dtype=np.float64),
    "numpy bool": np.array([True, False]),
    "numpy object": np.array(DELAYS_MS, dtype=object),
    "numpy big-endian": np.array(DELAYS_MS, dtype=">i8"),
    "numpy datetime": np.array(DELAYS_MS, dtype="datetime64[ms]"),
    "numpy two dimensions": np.zeros((2, 3), dtype=np.int64),
    "numpy no dimension": np.array(5, dtype=np.int64),
    "numpy scalar": np.int64(5),
    "memoryview of bytes": memoryview(bytes(40)),
    "memoryview released": released_memoryview(),
    "arrow int32": pa.array(DELAYS_MS, type=pa.int32()),
    "arrow float": pa.array([1.0]),
    "arrow string": pa.array(["a"]),
    "arrow timestamp": pa.array(DELAYS_MS, type=pa.timestamp("ms")),
    "arrow list": pa.array([[1], [2]], type=pa.list_(pa.int64())),
    "set": set(DELAYS_MS),
    "generator": (delay_ms for delay_ms in DELAYS_MS),
}


@pytest.mark.parametrize("delays_ms", REFUSED.values(), ids=REFUSED.keys())
def test_anything_else_is_a_type_error_and_adds_nothing(delays_ms):
    timer = ManualTimer()
    before = timer.stats()
    with pytest.raises(TypeError, match="delays_ms"):
        timer.call_many(delays_ms, print)
    assert timer.stats() == before


@pytest.mark.parametrize("place", [0, 1, 7, 8, 9, 63, 64])
def test_an_arrow_array_with_a_null_is_refused_and_the_null_is_named(place):
    timer = ManualTimer()
    values = [5] * 70
    values[place] = None
    for delays_ms in (pa.array(values, type=pa.int64()), pa.array([None, 1, *values], type=pa.int64()).slice(2)):
        with pytest.raises(ValueError, match=rf"delays_ms.*nulls.*\[{place}\]"):
            timer.call_many(delays_ms, print)
    assert len(timer) == 0


def test_the_delays_are_copied(ran):
    timer = ManualTimer()
    delays_ms = np.array([5, 10], dtype=np.int64)
    timer.call_many(delays_ms, ran.extend)
    delays_ms[:] = 1
    del delays_ms
    gc.collect()
    timer.advance(0.004)
    assert ran == []
    timer.advance(0.001)
    assert ran == [0]


def test_the_buffer_is_let_go_at_once():
    timer = ManualTimer()
    delays_ms = array("q", [5, 10])
    batch = timer.call_many(delays_ms, print)
    delays_ms.append(15)  # a BufferError while somebody looks at it
    indices = array("q", [0])
    batch.cancel(indices)
    indices.append(1)
    assert batch.pending == 1


def test_indices_may_be_used_as_an_index_into_numpy_and_arrow(ran):
    timer = ManualTimer()
    names = np.array(["a", "b", "c", "d", "e"])
    timer.call_many(array("q", DELAYS_MS), lambda indices: ran.extend(names[np.asarray(indices)]))
    timer.advance(0.03)
    assert ran == [str(names[index]) for index in IN_ORDER]


def test_a_batch_that_is_too_long_for_its_indices_is_refused():
    endless = np.broadcast_to(np.int64(5), 2**31)  # one number, repeated without being stored
    timer = ManualTimer()
    with pytest.raises(OverflowError, match="at most 2,147,483,647 timers"):
        timer.call_many(endless, print)
    assert len(timer) == 0
