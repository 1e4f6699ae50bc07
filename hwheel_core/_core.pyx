# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=False, embedsignature=True, embedsignature.format=clinic, always_allow_keywords=False
"""The compiled core: one translation unit, so that everything inlines.

Included first: plain C over the structs of types.pxd, `noexcept nogil`, no Python object. Then what Python sees:
arguments, references, exceptions, and the choice of when to wait for a lock without the GIL; no algorithm.
"""

cimport cython
from cpython cimport array
from cpython.buffer cimport PyObject_CheckBuffer
from cpython.contextvars cimport (PyContext_CheckExact, PyContext_CopyCurrent, PyContext_Enter, PyContext_Exit,
                                  PyContext_New)
from cpython.exc cimport PyErr_CheckSignals
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from cpython.object cimport PyCallable_Check
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_CheckExact
from libc.math cimport INFINITY, ceil, floor, isinf, isnan
from libc.stdint cimport int8_t, INT64_MAX, INT64_MIN, UINT64_MAX
from libc.string cimport memcpy, memset

from hwheel_core.types cimport *

import os
import functools
import threading
import time

from hwheel_core.errors import TimerClosed, TimerFull
from hwheel_core.snapshot import Bucket as Bucket_, Level as Level_, WheelSnapshot

cdef extern from "<pthread.h>" nogil:
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
    int HW_DEBUG
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

cdef extern from "native.h":
    PyObject** hw_tuple_items(PyObject*) nogil
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

cdef enum:
    MAX_WHEEL_SIZE = 1048576

DEFAULT_WHEEL_SIZE = 512

# Plain C.
include "wheel/block.pxi"
include "wheel/entry.pxi"
include "wheel/bucket.pxi"
include "wheel/queue.pxi"
include "wheel/wheel.pxi"
include "wheel/memory.pxi"
include "timer/clock.pxi"
include "timer/lateness.pxi"
include "timer/lock.pxi"
include "timer/timer.pxi"
include "timer/reaper.pxi"
include "timer/batch.pxi"
include "timer/check.pxi"
include "replay/replay.pxi"
include "columns/columns.pxi"

# What Python sees.
include "python/debug.pxi"
include "python/arguments.pxi"
include "python/read_clock.pxi"
include "python/task.pxi"
include "python/task_call.pxi"
include "python/task_adding.pxi"
include "python/periodic.pxi"
include "python/int64_buffer.pxi"
include "python/timer_batch.pxi"
include "python/hand_out.pxi"
include "python/inspect.pxi"
include "python/timing_wheel.pxi"
include "python/base_timer.pxi"
include "python/timer_core.pxi"
include "python/handed_out.pxi"
include "replay/function.pxi"
include "columns/functions.pxi"
include "loop/order.pxi"
include "loop/handle.pxi"
include "loop/timers.pxi"
include "loop/clock.pxi"
include "loop/alarm.pxi"
include "loop/pass.pxi"
include "loop/call.pxi"
include "loop/method.pxi"
include "loop/collector.pxi"
include "purgatory/reentrant_lock.pxi"
include "purgatory/watch_list.pxi"
include "purgatory/operation.pxi"
include "purgatory/core.pxi"
include "purgatory/entries.pxi"


cdef TimerTask sample = TimerTask(0)
entry_offset = <char*>&sample.task - <char*><PyObject*>sample
TASK_SIZE = TimerTask.__basicsize__ + 16
if task_slots(<PyObject*>sample)[0] != <PyObject*>sample.callback_ or TASK_SIZE != 16 + entry_offset + sizeof(Task) + 16:
    raise SystemError("a TimerTask is not laid out as task.pxi takes for granted")
sample = None
hw_set_dealloc(<PyObject*>TimerTask, task_dealloc)

cdef OperationCore sample_operation = OperationCore(0)
if operation_purgatory_slot(<PyObject*>sample_operation)[0] != <PyObject*>sample_operation.purgatory:
    raise SystemError("an OperationCore is not laid out as operation.pxi takes for granted")
sample_operation = None
hw_set_new(<PyObject*>OperationCore, operation_new)
hw_set_dealloc(<PyObject*>OperationCore, operation_dealloc)
hw_set_gc(<PyObject*>WatchList, watch_list_traverse, watch_list_break_cycles)
common_call_later = <object>hw_speed_up(<PyObject*>TimerFace, "call_later", &fast_call_later_def, <void*>fast_call_later)
common_call_at = <object>hw_speed_up(<PyObject*>TimerFace, "call_at", &fast_call_at_def, <void*>fast_call_at)

common_loop_call_later = <object>hw_speed_up(<PyObject*>LoopTimers, "call_later", &timers_call_later_def, <void*>timers_call_later_fast)
common_loop_call_at = <object>hw_speed_up(<PyObject*>LoopTimers, "call_at", &timers_call_at_def, <void*>timers_call_at_fast)

cdef LoopHandle sample_handle = LoopHandle.__new__(LoopHandle)
loop_entry_offset = <char*>&sample_handle.task - <char*><PyObject*>sample_handle
sample_handle = None
