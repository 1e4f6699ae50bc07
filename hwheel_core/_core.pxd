"""What the core declares: what it takes from C and from CPython, and, a room after the other, its structs and the fields
of its classes. What stands in a room's structs.pxd knows the rooms above it in this list, and no other."""

cimport cython
from cpython cimport array
from cpython.buffer cimport PyObject_CheckBuffer
from cpython.contextvars cimport (PyContext_CheckExact, PyContext_Copy, PyContext_CopyCurrent, PyContext_Enter,
                                  PyContext_Exit, PyContext_New)
from cpython.exc cimport PyErr_CheckSignals
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from cpython.object cimport Py_EQ, PyCallable_Check, PyObject_Hash, PyObject_RichCompareBool
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_CheckExact
from libc.math cimport INFINITY, ceil, fabs, floor, isinf, isnan
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint32_t, uint64_t, uintptr_t, INT64_MAX, INT64_MIN, UINT64_MAX
from libc.string cimport memcpy, memset

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    int pthread_atfork(void (*)() noexcept nogil, void (*)() noexcept nogil, void (*)() noexcept nogil)
    int pthread_mutex_init(pthread_mutex_t*, void*)
    int pthread_mutex_destroy(pthread_mutex_t*)
    int pthread_mutex_lock(pthread_mutex_t*)
    int pthread_mutex_trylock(pthread_mutex_t*)
    int pthread_mutex_unlock(pthread_mutex_t*)
    int pthread_cond_init(pthread_cond_t*, void*)
    int pthread_cond_destroy(pthread_cond_t*)
    int pthread_cond_wait(pthread_cond_t*, pthread_mutex_t*)
    int pthread_cond_signal(pthread_cond_t*)
    int pthread_cond_broadcast(pthread_cond_t*)

cdef extern from "<time.h>" nogil:
    ctypedef int clockid_t
    cdef struct timespec:
        long tv_sec
        long tv_nsec
    clockid_t CLOCK_MONOTONIC
    int clock_gettime(clockid_t, timespec*)

cdef extern from "<unistd.h>" nogil:
    int close_fd "close"(int)

cdef extern from "Python.h":
    void PyObject_GC_Track(PyObject*)
    void PyObject_GC_UnTrack(PyObject*)
    bint PyObject_GC_IsTracked(PyObject*)
    void Py_XDECREF(PyObject*)
    void Py_XINCREF(PyObject*)
    bint PyIndex_Check(object)
    Py_ssize_t PyObject_Size(object) except -1
    bint PyLong_CheckExact(object)
    long long PyLong_AsLongLongAndOverflow(object, int*)
    uintptr_t PyThread_get_thread_ident() nogil
    ctypedef int (*visitproc)(PyObject*, void*) noexcept
    ctypedef int (*traverseproc)(PyObject*, visitproc, void*) noexcept
    ctypedef struct PyTypeObject:
        traverseproc tp_traverse
    object PyNumber_Index(object)
    PyObject* PyDict_GetItem(object, object)
    PyObject* PyObject_Vectorcall(object, PyObject**, size_t, PyObject*)
    PyObject* PyObject_VectorcallDict(object, PyObject**, size_t, PyObject*)

cdef extern from "native.h" nogil:
    ctypedef struct hw_divisor:
        pass
    int HW_DEBUG
    unsigned long HW_CYTHON
    const char* HW_COMPILER
    const char* HW_FLAGS
    clockid_t HW_BOOTTIME
    void hw_prefetch(const void*)
    bint hw_add_overflows(int64_t, int64_t, int64_t*)
    bint hw_mul_overflows(int64_t, int64_t, int64_t*)
    hw_divisor hw_divisor_of(int64_t)
    int64_t hw_divide(int64_t, const hw_divisor*)
    int64_t hw_round(double)
    int64_t hw_read(const void*)
    void hw_advise_huge(void*, size_t)
    int hw_leading_zeros(uint64_t)
    int64_t hw_count_add(int64_t*, int64_t)
    uintptr_t hw_load(uintptr_t*)
    void hw_store(uintptr_t*, uintptr_t)
    bint hw_flag(int*)
    int hw_wake_open(int*)
    void hw_wake_close(int*)
    void hw_wake_write(int)
    void hw_wake_drain(int)
    int hw_alarm_open()
    void hw_alarm_set(int, int64_t)
    int hw_poll(int, int, int64_t)
    void hw_pause()

cdef extern from "native.h":
    PyObject** hw_tuple_items(PyObject*) nogil
    void hw_set_size(PyObject*, Py_ssize_t)
    void hw_set_name(PyObject*, const char*)
    void hw_set_dealloc(PyObject*, void (*)(PyObject*) noexcept)
    void hw_type_free(PyObject*)
    void hw_free_in_turn(PyObject*, void (*)(PyObject*) noexcept, void (*)(PyObject*) noexcept)
    void hw_set_new(PyObject*, PyObject* (*)(PyObject*, PyObject*, PyObject*) noexcept)
    PyObject* hw_object_new(PyObject*, PyObject*)
    void hw_set_gc(PyObject*, int (*)(PyObject*, visitproc, void*) noexcept, int (*)(PyObject*) noexcept)
    bint hw_take(uintptr_t*, uintptr_t)
    uintptr_t hw_word_load(uintptr_t*)
    void hw_word_store(uintptr_t*, uintptr_t)
    PyObject* hw_gc_new(PyObject*)
    ctypedef struct PyMethodDef:
        pass
    uint64_t hw_dict_version(PyObject*)
    uint64_t hw_type_version(PyTypeObject*)
    bint hw_finds_as_usual(PyTypeObject*)
    PyObject* hw_method(PyMethodDef*, const char*, void*, const char*) except NULL
    PyObject* hw_speed_up(PyObject*, const char*, PyMethodDef*, void*) except NULL


include "wheel/structs.pxd"
include "timer/structs.pxd"
include "python/structs.pxd"
include "loop/structs.pxd"
include "purgatory/structs.pxd"
include "containers/structs.pxd"
include "columns/structs.pxd"
include "replay/structs.pxd"
