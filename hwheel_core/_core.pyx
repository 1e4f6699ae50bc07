# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=False, embedsignature=True, embedsignature.format=clinic, always_allow_keywords=False
"""The compiled core: one translation unit, so that everything inlines.

Included first: plain C over the structs of types.pxd, `noexcept nogil`, no Python object. Then what Python sees:
arguments, references, exceptions, and the choice of when to wait for a lock without the GIL; no algorithm.
"""

cimport cython

import os
import functools
import threading
import time

from hwheel_core.errors import TimerClosed, TimerFull
from hwheel_core.snapshot import Bucket as Bucket_, Level as Level_, WheelSnapshot

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
include "timer/wake.pxi"
include "timer/batch.pxi"
include "timer/timer.pxi"
include "timer/task.pxi"
include "timer/set_back.pxi"
include "timer/bulk.pxi"
include "timer/reaper.pxi"
include "timer/roles.pxi"
include "timer/check.pxi"
include "timer/fork.pxi"

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
include "loop/entry.pxi"
include "loop/gc.pxi"
include "loop/order.pxi"
include "loop/genuine.pxi"
include "loop/clock.pxi"
include "loop/alarm.pxi"
include "loop/run.pxi"
include "loop/offer.pxi"
include "loop/pass.pxi"
include "loop/add.pxi"
include "loop/handle.pxi"
include "loop/timers.pxi"
include "loop/methods.pxi"
include "purgatory/reentrant_lock.pxi"
include "purgatory/watcher.pxi"
include "purgatory/watch_list.pxi"
include "purgatory/lists.pxi"
include "purgatory/ending.pxi"
include "purgatory/check.pxi"
include "purgatory/operation.pxi"
include "purgatory/add.pxi"
include "purgatory/core.pxi"
include "columns/placement.pxi"
include "columns/rows.pxi"
include "columns/radix.pxi"
include "columns/functions.pxi"
include "replay/replay.pxi"
include "replay/function.pxi"


cdef TimerTask sample = TimerTask(0)
entry_offset = <char*>&sample.task - <char*><PyObject*>sample
TASK_SIZE = TimerTask.__basicsize__ + 16
if task_slots(<PyObject*>sample)[0] != <PyObject*>sample.callback_ or TASK_SIZE != 16 + entry_offset + sizeof(Task) + 16:
    raise SystemError("a TimerTask is not laid out as task.pxi takes for granted")
sample = None
hw_set_dealloc(<PyObject*>TimerTask, task_dealloc)

common_call_later = <object>hw_speed_up(<PyObject*>TimerFace, "call_later", &fast_call_later_def, <void*>fast_call_later)
common_call_at = <object>hw_speed_up(<PyObject*>TimerFace, "call_at", &fast_call_at_def, <void*>fast_call_at)
