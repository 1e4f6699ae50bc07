# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=False, embedsignature=True, embedsignature.format=clinic, always_allow_keywords=False
# cython: auto_pickle=False, freethreading_compatible=True
"""The compiled core. It is one translation unit, because calls between Cython modules go through pointers and are not inlined.

Each folder is a room, named after its noun. Its structs.pxd declares the plain C structs, its classes.pxd the fields of the Python
classes. Plain C files (noexcept nogil, no Python object) are included first, then the files with Python objects. Includes point
one way: no file uses a function of a later file, and tests/packaging/test_rooms.py checks that.

    wheel/         the algorithm: no lock, no Python. Read wheel/wheel.pxi first
    cpython/       helpers for CPython only: buffers, lists, a lock that needs the GIL
    timer/         the wheel behind a lock: clock, reaper, inboxes, fork, close, statistics; BaseTimer. See timer/structs.pxd
    task/          TimerTask: callback, context, terms, repetition, awaiting, dump
    batch/         TimerBatch: many timers that share one callback
    group/         TimerGroup: timers that are cancelled together
    threading/     the elastic pool of threads behind hwheel.Timer
    loop/ purgatory/ containers/ columns/ replay/    faces, each with its own algorithm
    c_api/         the wheel for programs in C and Cython, without a lock and without Python
    platform/      C headers: differences between systems and between compilers

A call from call_later to its callback passes timer/adding, timer/read_clock, timer/deadline, task/call, task/link, task/task,
timer/ready, and wheel/wheel; then timer/lifecycle, timer/reaper, timer/timer, timer/run, and timer/take. On the way it uses the
helpers in timer/arguments, timer/set_up, timer/clock, timer/lock, timer/turn, task/object, and the rest of wheel/.

Names. A C function is called `noun_verb`: the noun is its first argument, except where that is the Timer whose lock it needs.
`noexcept nogil` marks plain C; other functions run with the GIL. `_locked` means that the caller holds the timer's lock.
docs/glossary.md defines the words.
"""

cimport cython

import _thread
import collections
import functools
import operator
import os
import sys
import threading
import time
import types
import weakref

# C variables: finalizers may use a timer at interpreter exit, when the names of modules are gone.
cdef object TimerClosed, TimerFull, TimerMissed
from hwheel_core.census import census_of
from hwheel_core.errors import TimerClosed, TimerFull, TimerMissed
from hwheel_core.snapshot import Bucket as Bucket_, Level as Level_, WheelSnapshot
from hwheel_core.stats import Lateness as Lateness_, TimerStats

cdef enum:
    MAX_WHEEL_SIZE = 1048576

DEFAULT_WHEEL_SIZE = 512

# Plain C: noexcept nogil, no Python object.
include "wheel/entry.pxi"
include "wheel/bucket.pxi"
include "wheel/queue.pxi"
include "wheel/wheel.pxi"
include "wheel/memory.pxi"
include "timer/clock.pxi"
include "batch/batch.pxi"
include "timer/ready.pxi"
include "timer/inbox.pxi"
include "timer/lock.pxi"
include "timer/timer.pxi"
include "timer/deadline.pxi"
include "group/group.pxi"
include "task/task.pxi"
include "batch/bulk.pxi"
include "timer/reaper.pxi"
include "timer/survey.pxi"
include "timer/check.pxi"
include "timer/fork.pxi"

# With Python objects.
include "cpython/build.pxi"
include "cpython/reentrant_lock.pxi"
include "cpython/int64_buffer.pxi"
include "cpython/list_reserve.pxi"
include "timer/turn.pxi"
include "timer/arguments.pxi"
include "timer/read_clock.pxi"
include "task/object.pxi"
include "task/call.pxi"
include "task/awaiting.pxi"
include "task/link.pxi"
include "task/timer_task.pxi"
include "task/terms.pxi"
include "timer/set_up.pxi"
include "batch/adding.pxi"
include "batch/timer_batch.pxi"
include "timer/take.pxi"
include "timer/inspect.pxi"
include "timer/census.pxi"
include "timer/timing_wheel.pxi"
include "timer/adding.pxi"
include "task/periodic.pxi"
include "group/timer_group.pxi"
include "timer/handed_out.pxi"
include "timer/run.pxi"
include "task/dump.pxi"
include "timer/lifecycle.pxi"
include "timer/base_timer.pxi"
include "threading/latch.pxi"
include "threading/pool.pxi"
include "threading/timer.pxi"
include "loop/entries.pxi"
include "loop/collector.pxi"
include "loop/clock.pxi"
include "loop/wakeup.pxi"
include "loop/run.pxi"
include "loop/pass.pxi"
include "loop/add.pxi"
include "loop/handle.pxi"
include "loop/census.pxi"
include "loop/timers.pxi"
include "loop/running.pxi"
include "loop/timeout.pxi"
include "purgatory/watch_list.pxi"
include "purgatory/lists.pxi"
include "purgatory/operation.pxi"
include "purgatory/purgatory.pxi"
include "containers/container.pxi"
include "containers/table.pxi"
include "containers/expiring.pxi"
include "containers/expiring_dict.pxi"
include "containers/delaying.pxi"
include "containers/delay_queue.pxi"
include "containers/cache.pxi"
include "containers/cache_core.pxi"
include "containers/cached_call.pxi"
include "containers/check.pxi"
include "columns/columns.pxi"
include "columns/functions.pxi"
include "replay/replay.pxi"
include "replay/function.pxi"
include "c_api/open_wheel.pxi"

# For debug builds; uses every room.
include "debug.pxi"
