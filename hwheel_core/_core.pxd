"""Declarations of the core: imports from C and CPython, then the structs and the fields of the classes of each room.

A structs.pxd uses only rooms that are included before its own.
"""

cimport cython
from cpython cimport array
from cpython.buffer cimport PyObject_CheckBuffer
from cpython.contextvars cimport (PyContext_CheckExact, PyContext_Copy, PyContext_CopyCurrent, PyContext_Enter,
                                  PyContext_Exit, PyContext_New)
from cpython.exc cimport PyErr_CheckSignals, PyErr_WarnEx
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsDouble
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from cpython.object cimport Py_EQ, PyCallable_Check, PyObject_Hash, PyObject_RichCompareBool
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.pythread cimport (PyThread_acquire_lock, PyThread_allocate_lock, PyThread_release_lock, PyThread_type_lock,
                               WAIT_LOCK)
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_CheckExact
from cpython.version cimport PY_VERSION_HEX
from cpython.weakref cimport PyWeakref_NewRef
from libc.math cimport INFINITY, ceil, fabs, floor, isfinite, isinf, isnan
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint32_t, uint64_t, uintptr_t, INT64_MAX, INT64_MIN, UINT64_MAX
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset

cdef extern from "native.h" nogil:      # documented in platform/platform.h
    ctypedef struct hw_mutex:
        pass
    ctypedef struct hw_cond:
        pass
    ctypedef struct hw_waker:
        pass
    bint HW_HAS_BOOTTIME
    const char* HW_COMPILER
    void hw_mutex_init(hw_mutex*)
    void hw_mutex_destroy(hw_mutex*)
    void hw_mutex_lock(hw_mutex*)
    bint hw_mutex_trylock(hw_mutex*)
    void hw_mutex_unlock(hw_mutex*)
    void hw_cond_init(hw_cond*)
    void hw_cond_destroy(hw_cond*)
    void hw_cond_wait(hw_cond*, hw_mutex*)
    void hw_cond_signal(hw_cond*)
    void hw_cond_broadcast(hw_cond*)
    int hw_at_fork(void (*)() noexcept nogil, void (*)() noexcept nogil, void (*)() noexcept nogil)
    int64_t hw_clock_ns()
    void hw_clock_read(bint, int64_t*, int32_t*)
    void hw_waker_init(hw_waker*)
    bint hw_waker_is_open(const hw_waker*)
    bint hw_waker_open(hw_waker*, bint)
    void hw_waker_close(hw_waker*)
    void hw_waker_wake(hw_waker*)
    void hw_waker_clear(hw_waker*)
    int hw_waker_sleep(hw_waker*, int64_t, int64_t, void*)
    void hw_pause()
    void hw_advise_huge(void*, size_t)
    void hw_prefetch(const void*)
    int32_t hw_peek32(const int32_t*)
    void hw_poke32(int32_t*, int32_t)
    void hw_set_bits(int*, int)
    void hw_clear_bits(int*, int)
    int hw_thread_number()
    int HW_INBOXES
    int HW_MEETINGS
    void hw_prefetch_link(const void*)
    bint hw_add_overflows(int64_t, int64_t, int64_t*)
    bint hw_mul_overflows(int64_t, int64_t, int64_t*)
    int hw_leading_zeros(uint64_t)
    int64_t hw_read(const void*)
    uintptr_t hw_load(uintptr_t*)
    void hw_store(uintptr_t*, uintptr_t)
    int hw_peek(const int*)
    void hw_poke(int*, int)
    int64_t hw_peek64(const int64_t*)
    void hw_poke64(int64_t*, int64_t)
    void hw_bump(int64_t*, int64_t)
    bint hw_flag(int*)
    void hw_set_flag(int*)

cdef extern from "Python.h":
    void PyObject_GC_Track(PyObject*)
    void PyObject_GC_UnTrack(PyObject*)
    bint PyObject_GC_IsTracked(PyObject*)
    bint PyObject_IS_GC(PyObject*)
    PyObject* PyFunction_GetClosure(PyObject*)
    PyObject* PyFunction_GetDefaults(PyObject*)
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
    int HW_FREE_THREADED
    unsigned long HW_CYTHON
    const char* HW_FLAGS
    hw_divisor hw_divisor_of(int64_t)
    int64_t hw_divide(int64_t, const hw_divisor*)
    int64_t hw_round(double)
    int64_t hw_count_add(int64_t*, int64_t)

cdef extern from "native.h":
    void* hw_interruption()
    PyObject** hw_tuple_items(PyObject*) nogil
    void hw_set_size(PyObject*, Py_ssize_t)
    void hw_share_reference_count(PyObject*)
    void hw_free_object_lock(PyObject*)
    void hw_set_name(PyObject*, const char*)
    PyObject* hw_running_get()
    void hw_running_set(PyObject*)
    void hw_set_await(PyObject*, void*, void*)
    object hw_stop_new()
    bint hw_stop_is_free(PyObject*)
    void hw_stop_raise(PyObject*, PyObject*)
    void hw_stop_forget(PyObject*, PyObject*)
    ctypedef object (*PyCFunction)(PyObject*, PyObject*)
    PyCFunction hw_method_function(PyObject*, const char*)
    object hw_call_none(PyObject*)
    object hw_call_one(PyObject*, PyObject*)
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
    bint hw_function_has_parts(PyObject*)
    ctypedef struct PyMethodDef:
        pass
    void hw_dict_watch(PyObject*)
    uint64_t hw_dict_version(PyObject*)
    uint64_t hw_type_version(PyTypeObject*)
    bint hw_uses_default_getattr(PyTypeObject*)
    bint hw_is_method(PyObject*)
    PyObject* hw_type_lookup(PyObject*, PyObject*)
    PyObject* hw_dict_get(PyObject*, PyObject*)
    void hw_dict_release(PyObject*)
    PyObject* hw_method(PyMethodDef*, const char*, void*, const char*) except NULL
    PyObject* hw_use_fastcall(PyObject*, const char*, PyMethodDef*, void*) except NULL


include "wheel/structs.pxd"
include "timer/structs.pxd"
include "task/structs.pxd"
include "group/structs.pxd"
include "batch/structs.pxd"

# With Python objects.
include "cpython/structs.pxd"
include "task/classes.pxd"
include "batch/classes.pxd"
include "timer/classes.pxd"
include "group/classes.pxd"
include "threading/structs.pxd"
include "loop/structs.pxd"
include "purgatory/structs.pxd"
include "containers/structs.pxd"
include "columns/structs.pxd"
include "replay/structs.pxd"
include "c_api/structs.pxd"
