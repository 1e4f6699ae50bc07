# cython: language_level=3, binding=False
# The least that call_later can cost: a compiled method that takes its arguments and makes the object that it returns.

cdef extern from *:
    """
    static PyObject* made(PyObject* type, PyObject* nothing) {
        return ((PyTypeObject*)type)->tp_new((PyTypeObject*)type, nothing, NULL);
    }
    """
    object made(object type, object nothing)


cdef class Floor:
    """Floor(type): its call_later makes a `type` and does nothing with it."""
    cdef object type

    def __init__(self, type):
        self.type = type

    def call_later(self, delay, callback, argument):
        return made(self.type, ())
