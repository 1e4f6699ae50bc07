"""Buffers as delays and indices of a batch: int64 only, by the buffer protocol or the Arrow C data interface."""

import ctypes
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
    """Return a view with a stride, which may be negative."""
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
def test_every_int64_buffer_gives_the_same_timers(delays_ms, ran):
    timer = ManualTimer()
    batch = timer.call_many(delays_ms, lambda indices: ran.append((round(timer.time() * 1000), list(indices))))
    assert (len(batch), batch.pending, len(timer)) == (5, 5, 5)
    timer.advance(0.03)
    assert ran == [(0, [4]), (10, [1, 3]), (20, [2]), (30, [0])]


@pytest.mark.parametrize("delays_ms", SAME_DELAYS.values(), ids=SAME_DELAYS.keys())
def test_every_int64_buffer_works_as_indices(delays_ms):
    timer = ManualTimer()
    batch = timer.call_many(array("q", range(1, 100)), print)
    assert batch.cancel(delays_ms) == 4  # 10 occurs twice
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
def test_empty_batch(delays_ms, ran):
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
def test_other_types_are_refused(delays_ms):
    timer = ManualTimer()
    before = timer.stats()
    with pytest.raises(TypeError, match="delays_ms"):
        timer.call_many(delays_ms, print)
    assert timer.stats() == before


@pytest.mark.parametrize("place", [0, 1, 7, 8, 9, 63, 64])
def test_error_names_the_null_of_an_arrow_array(place):
    timer = ManualTimer()
    values = [5] * 70
    values[place] = None
    for delays_ms in (pa.array(values, type=pa.int64()), pa.array([None, 1, *values], type=pa.int64()).slice(2)):
        with pytest.raises(ValueError, match=rf"delays_ms.*nulls.*\[{place}\]"):
            timer.call_many(delays_ms, print)
    assert len(timer) == 0


def test_delays_are_copied(ran):
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


def test_buffer_is_released_after_the_call():
    timer = ManualTimer()
    delays_ms = array("q", [5, 10])
    batch = timer.call_many(delays_ms, print)
    delays_ms.append(15)  # a BufferError while the buffer is exported
    indices = array("q", [0])
    batch.cancel(indices)
    indices.append(1)
    assert batch.pending == 1


def test_indices_can_index_a_numpy_array(ran):
    timer = ManualTimer()
    names = np.array(["a", "b", "c", "d", "e"])
    timer.call_many(array("q", DELAYS_MS), lambda indices: ran.extend(names[np.asarray(indices)]))
    timer.advance(0.03)
    assert ran == [str(names[index]) for index in IN_ORDER]


def test_batch_longer_than_the_index_type_is_refused():
    endless = np.broadcast_to(np.int64(5), 2**31)  # one number with stride 0
    timer = ManualTimer()
    with pytest.raises(OverflowError, match="at most 2,147,483,647 timers"):
        timer.call_many(endless, print)
    assert len(timer) == 0


# --- the Arrow C data interface: moved, malformed, and failing arrays -------------------------------------------------

RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Schema(ctypes.Structure):
    _fields_ = [
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_char_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", RELEASE),
        ("private_data", ctypes.c_void_p),
    ]


class Column(ctypes.Structure):
    _fields_ = [
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", RELEASE),
        ("private_data", ctypes.c_void_p),
    ]


def capsule(struct, name):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(struct), name, None)


class Exporter:
    """An Arrow array; options set fields of its two structs."""

    def __init__(self, values=(5, 10, 15), *, schema=(), names=(b"arrow_schema", b"arrow_array"), **fields):
        self.released = []
        self.values = (ctypes.c_int64 * len(values))(*values)
        self.buffers = (ctypes.c_void_p * 2)(None, ctypes.addressof(self.values))
        self.schema = Schema(format=b"l", release=RELEASE(lambda place: None))
        self.column = Column(length=len(values), n_buffers=2, buffers=self.buffers, release=RELEASE(self.release))
        for struct, options in ((self.schema, dict(schema)), (self.column, fields)):
            for name, value in options.items():
                setattr(struct, name, value)
        self.names = names

    def release(self, place):
        self.released.append(place)
        Column.from_address(place).release = RELEASE()

    def __arrow_c_array__(self, requested_schema=None):
        return capsule(self.schema, self.names[0]), capsule(self.column, self.names[1])


def test_array_is_moved_and_released_once():
    timer, ran = ManualTimer(), []
    exporter = Exporter()
    batch = timer.call_many(exporter, ran.extend)
    assert len(batch) == 3
    assert len(exporter.released) == 1
    assert not exporter.column.release  # moved out of the capsule
    timer.advance(0.015)
    assert ran == [0, 1, 2]


def test_moved_array_is_refused():
    timer = ManualTimer()
    exporter = Exporter()
    timer.call_many(exporter, print)
    with pytest.raises(ValueError, match="capsules were consumed before"):
        timer.call_many(exporter, print)
    assert len(exporter.released) == 1
    timer.close()


MALFORMED = {
    "schema released": (ValueError, {"schema": {"release": RELEASE()}}),
    "array released": (ValueError, {"release": RELEASE()}),
    "no format": (TypeError, {"schema": {"format": None}}),
    "format of strings": (TypeError, {"schema": {"format": b"u"}}),
    "format of no text": (TypeError, {"schema": {"format": b"\xff\xfe"}}),
    "longer format": (TypeError, {"schema": {"format": b"ll"}}),
    "dictionary": (TypeError, {"schema": {"dictionary": 1}}),
    "negative length": (ValueError, {"length": -1}),
    "negative offset": (ValueError, {"offset": -1}),
    "offset beyond the end of memory": (ValueError, {"offset": 2**63 - 1}),
    "length beyond the end of memory": (ValueError, {"length": 2**62}),
    "one buffer": (ValueError, {"n_buffers": 1}),
    "three buffers": (ValueError, {"n_buffers": 3}),
    "no buffers": (ValueError, {"buffers": None}),
    "no data": (ValueError, {"buffers": (ctypes.c_void_p * 2)(None, None)}),
    "nulls without a bitmap": (ValueError, {"null_count": 1}),
    "wrong name of the schema": (ValueError, {"names": (b"schema", b"arrow_array")}),
    "wrong name of the array": (ValueError, {"names": (b"arrow_schema", b"arrow_schema")}),
}


@pytest.mark.parametrize(("error", "options"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_array_is_refused(error, options):
    timer = ManualTimer()
    with pytest.raises(error):
        timer.call_many(Exporter(**options), print)
    batch = timer.call_many(array("q", [5, 6]), print)
    with pytest.raises(error):
        batch.cancel(Exporter((0, 1), **options))
    assert len(timer) == 2
    timer.close()


@pytest.mark.parametrize("answer", [None, 5, (), (1,), (1, 2), (None, None), (1, 2, 3), "ab", object()])
def test_invalid_result_of_the_array_interface(answer):
    class Garbage:
        def __arrow_c_array__(self, requested_schema=None):
            return answer

    timer = ManualTimer()
    with pytest.raises((TypeError, ValueError)):
        timer.call_many(Garbage(), print)
    assert len(timer) == 0


def test_exception_of_the_array_interface_is_raised():
    class Broken:
        def __arrow_c_array__(self, requested_schema=None):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ManualTimer().call_many(Broken(), print)


def test_extend_and_reschedule_take_arrow_arrays(ran):
    timer = ManualTimer()
    batch = timer.call_many(array("q", [10, 20]), ran.extend)
    assert batch.extend(pa.array([30, 40])) == range(2, 4)
    assert batch.reschedule(pa.array([3, 0]), pa.array([5, 35])) == 2
    timer.advance(1)
    assert ran == [3, 1, 2, 0]
