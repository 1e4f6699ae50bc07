"""The Arrow C data interface, spoken badly: arrays that were taken already, that lie, that are none."""

import ctypes
import gc
from array import array

import pyarrow as pa
import pytest

from hwheel import ManualTimer

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


def capsule(thing, name):
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(ctypes.addressof(thing), name, None)


class Exporter:
    """An Arrow array made by hand; options are fields of its two structs."""

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


def test_an_array_made_by_hand_is_taken_and_released_once():
    timer, ran = ManualTimer(), []
    exporter = Exporter()
    batch = timer.call_many(exporter, ran.extend)
    assert len(batch) == 3
    assert len(exporter.released) == 1
    assert not exporter.column.release  # it was moved out of the capsule
    timer.advance(0.015)
    assert ran == [0, 1, 2]


def test_an_array_that_was_taken_before_is_refused():
    timer = ManualTimer()
    exporter = Exporter()
    timer.call_many(exporter, print)
    with pytest.raises(ValueError, match="taken out of its capsules"):
        timer.call_many(exporter, print)
    assert len(exporter.released) == 1
    timer.close()


LIES = {
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


@pytest.mark.parametrize(("error", "options"), LIES.values(), ids=LIES.keys())
def test_an_array_that_lies_is_an_error_and_adds_nothing(error, options):
    timer = ManualTimer()
    with pytest.raises(error):
        timer.call_many(Exporter(**options), print)
    batch = timer.call_many(array("q", [5, 6]), print)
    with pytest.raises(error):
        batch.cancel(Exporter((0, 1), **options))
    assert len(timer) == 2
    timer.close()


@pytest.mark.parametrize("answer", [None, 5, (), (1,), (1, 2), (None, None), (1, 2, 3), "ab", object()])
def test_an_array_interface_that_answers_garbage_is_an_error(answer):
    class Garbage:
        def __arrow_c_array__(self, requested_schema=None):
            return answer

    timer = ManualTimer()
    with pytest.raises((TypeError, ValueError)):
        timer.call_many(Garbage(), print)
    assert len(timer) == 0


def test_an_error_of_the_array_interface_comes_through():
    class Broken:
        def __arrow_c_array__(self, requested_schema=None):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ManualTimer().call_many(Broken(), print)


def test_numbers_that_stand_for_other_values_are_refused():
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 1], type=pa.int64()), pa.array(["a", "b"]))
    with pytest.raises(TypeError, match="dictionary"):
        ManualTimer().call_many(dictionary, print)


def test_the_memory_lives_as_long_as_it_is_read():
    timer, ran = ManualTimer(), []
    timer.call_many(pa.array(range(1000), type=pa.int64()), ran.extend)
    gc.collect()
    timer.advance(1)
    assert ran == list(range(1000))
