# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=False, embedsignature=True, embedsignature.format=clinic, always_allow_keywords=False
# cython: auto_pickle=False, freethreading_compatible=True
"""The compiled core: one translation unit, because calls between Cython modules go through pointers and cannot be inlined.

A folder is a room, and the rooms are included from the bottom up: no file calls a function of a file below it in this list,
and tests/packaging/test_rooms.py sees to it. wheel/ is the algorithm: no lock, no Python. timer/ puts a lock around it.
python/ is what Python sees of both: arguments, references, exceptions, and when to wait for a lock without the GIL. loop/,
purgatory/, containers/, columns/ and replay/ are built on these, each with an algorithm of its own; c_api/ is what programs in C
and Cython see of wheel/, without a lock and without Python. The fields of its structs and classes
are in each room's structs.pxd, which _core.pxd includes. platform/ is headers of C: what differs between systems and between
compilers, which no room names.

Names. A function is called `noun_verb`, by the noun of what it is about, which is its first argument unless that is the Timer
whose lock it needs. `noexcept nogil` in its
first line says that it is plain C; without, it runs with the GIL. `_locked` at the end says that the timer's lock is held.
docs/glossary.md has the words.
"""

cimport cython

import _thread
import functools
import os
import sys
import threading
import time
import types
import weakref

# C's own variables, which are there to the very end: a finalizer that uses a timer may come when the names of modules are
# gone.
cdef object TimerClosed, TimerFull, TimerMissed
from hwheel_core.errors import TimerClosed, TimerFull, TimerMissed
from hwheel_core.snapshot import Bucket as Bucket_, Level as Level_, WheelSnapshot
from hwheel_core.stats import Lateness as Lateness_, TimerStats

cdef enum:
    MAX_WHEEL_SIZE = 1048576

DEFAULT_WHEEL_SIZE = 512

# Plain C: noexcept nogil, no Python object.
include "wheel/block.pxi"
include "wheel/entry.pxi"
include "wheel/bucket.pxi"
include "wheel/queue.pxi"
include "wheel/bookmark.pxi"
include "wheel/wheel.pxi"
include "wheel/memory.pxi"
include "timer/clock.pxi"
include "timer/lateness.pxi"
include "timer/wake.pxi"
include "timer/batch.pxi"
include "timer/batch_parts.pxi"
include "timer/ready.pxi"
include "timer/insert.pxi"
include "timer/inbox.pxi"
include "timer/lock.pxi"
include "timer/inboxes.pxi"
include "timer/timer.pxi"
include "timer/references.pxi"
include "timer/slack.pxi"
include "timer/task_looks.pxi"
include "timer/group.pxi"
include "timer/task.pxi"
include "timer/group_tasks.pxi"
include "timer/set_back.pxi"
include "timer/bulk.pxi"
include "timer/bulk_place.pxi"
include "timer/bulk_tasks.pxi"
include "timer/reaper.pxi"
include "timer/roles.pxi"
include "timer/look.pxi"
include "timer/writable.pxi"
include "timer/check.pxi"
include "timer/fork.pxi"

# What Python sees.
include "python/build.pxi"
include "python/huge_pages.pxi"
include "python/live.pxi"
include "python/arguments.pxi"
include "python/context.pxi"
include "python/reentrant_lock.pxi"
include "python/status.pxi"
include "python/read_clock.pxi"
include "python/task_layout.pxi"
include "python/task_owner.pxi"
include "python/task_call.pxi"
include "python/awaiting.pxi"
include "python/task_link.pxi"
include "python/task.pxi"
include "python/terms.pxi"
include "python/jitter.pxi"
include "python/periodic.pxi"
include "python/group_task.pxi"
include "python/int64_buffer.pxi"
include "python/list_room.pxi"
include "python/set_up.pxi"
include "python/batch_add.pxi"
include "python/timer_batch.pxi"
include "python/take.pxi"
include "python/inspect.pxi"
include "python/look.pxi"
include "python/timing_wheel.pxi"
include "python/adding.pxi"
include "python/miss.pxi"
include "python/every.pxi"
include "python/group.pxi"
include "python/handed_out.pxi"
include "python/run.pxi"
include "python/fork.pxi"
include "python/threads.pxi"
include "python/dump.pxi"
include "python/advance.pxi"
include "python/base_timer.pxi"
include "python/fastcall.pxi"
include "loop/entry.pxi"
include "loop/gc.pxi"
include "loop/at_rest.pxi"
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
include "purgatory/watcher.pxi"
include "purgatory/watch_list.pxi"
include "purgatory/lists.pxi"
include "purgatory/ending.pxi"
include "purgatory/check.pxi"
include "purgatory/operation.pxi"
include "purgatory/add.pxi"
include "purgatory/core.pxi"
include "containers/container.pxi"
include "containers/alarm.pxi"
include "containers/table.pxi"
include "containers/expiring.pxi"
include "containers/expiring_dict.pxi"
include "containers/waiters.pxi"
include "containers/delaying.pxi"
include "containers/delay_key.pxi"
include "containers/delay_queue.pxi"
include "containers/check.pxi"
include "columns/placement.pxi"
include "columns/rows.pxi"
include "columns/radix.pxi"
include "columns/functions.pxi"
include "replay/replay.pxi"
include "replay/function.pxi"
include "c_api/open_wheel.pxi"
include "c_api/capsule.pxi"

# What a debug build shows of all of them.
include "debug.pxi"
