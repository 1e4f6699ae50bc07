"""Lets allocations fail, each in turn, in an operation: a MemoryError that changes nothing, or a success.

A scene is a function of a World that prepares an operation and returns it, and beside it what is called afterwards,
with the exception or None, and yields what is wrong. It is played again and again: the n-th allocation of the operation
fails alone, or it and all that follow, for n = 1, 2, 3, until the operation does without it. (That is CPython's own
switch, for all of its allocators, from which the core has all of its memory.) The callbacks are C functions that need
no memory, so that what they do can be counted.
"""

import _testcapi
import gc
import itertools
import sys
import threading
from collections import Counter, deque

import hwheel_core
from hwheel import ManualTimer

FAR = 10**9  # ms: more levels than a wheel begins with
END = 10**8  # seconds: after everything


class World:
    """A timer, and an account of what is on it."""

    def __init__(self):
        self.timer = ManualTimer(wheel_size=4)
        self.ran = deque()  # has room for 32 more before it asks for memory
        self.batches = []  # (deque of arrays, length)
        self.numbers = itertools.count()
        self.sure = set()  # these have to run
        self.tasks = []
        self.cancelled = 0  # how many did not run since somebody cancelled them

    def later(self, delay):
        """One that is there before the memory fails."""
        number = next(self.numbers)
        self.sure.add(number)
        task = self.timer.call_later(delay, self.ran.append, number)
        self.tasks.append(task)
        return task

    def many(self, delays_ms):
        ran = deque()
        self.batches.append((ran, len(delays_ms)))
        return self.timer.call_many(delays_ms, ran.append)

    def start_anew(self):
        """Where the scene has closed the timer, and seen to what was on it."""
        self.sure.clear()
        self.batches.clear()
        self.timer = ManualTimer()

    def faults(self):
        """After the operation, and with memory again: everything that was there runs, once."""
        if hwheel_core.DEBUG:
            hwheel_core.debug_check(self.timer)
        self.timer.advance(END)
        ran = Counter(self.ran)
        if wrong := [number for number in self.sure if ran[number] != 1 and not self.tasks[number].cancelled]:
            yield f"did not run once: {[(number, ran[number]) for number in wrong]}"
        if double := [number for number, times in ran.items() if times > 1]:
            yield f"ran more than once: {double}"
        for arrays, length in self.batches:
            indices = Counter(index for one in arrays for index in one)
            if max(indices.values(), default=0) > 1:
                yield f"indices came twice: {indices}"
            if len(indices) + self.cancelled != length:
                yield f"{len(indices)} of {length} of a batch came, {self.cancelled} were cancelled"
        stats = self.timer.stats()
        if len(self.timer) or stats.added != stats.expired + stats.cancelled + stats.pending:
            yield f"{len(self.timer)} are pending, {stats}"
        self.timer.close()


SCENES = {}
MOST = {}  # scene -> how many allocations are tried where there is no end to them, because time goes on
ENDLESS = set()  # scenes that do not end while there is no memory at all
# Scenes that call Python functions. When there is no memory for one of them, or for a cell, CPython 3.11 loses a
# reference, and 3.13 crashes: these are played on 3.11 alone, without a look at what is left.
IN_PYTHON = set()


def scene(function):
    SCENES[function.__name__] = function
    return function


def named(name, function):
    """A scene that is made by a function."""
    SCENES[name] = function


def no_faults(error):
    """Of an operation that changes nothing."""
    return ()


def print_nothing(*report):
    """What is reported of a callback that had no memory is no news here."""


def play(name):
    """All allocations from the n-th on fail, until the operation does without; so it is known how many it takes. Then
    each of these alone. In the end nothing is left of all that was made."""
    before = live()
    most = MOST.get(name, 1000)
    for alone in (True,) if name in ENDLESS else (False, True):
        for n in range(1, most + 1):
            error, faults = once(SCENES[name], n, alone)
            for fault in faults:
                print(f"{name}, allocation {n}{'' if alone else ' and all that follow'}: {fault}")
            if not alone and error is None and name not in MOST:
                most = n
                break
    if live() != before and name not in IN_PYTHON:
        print(f"{name}: of timers, tasks, batches, watchers {before} there were before, {live()} after")


def live():
    gc.collect()
    return hwheel_core.debug_live() if hwheel_core.DEBUG else ()


def once(prepare, n, alone):
    """The exception, and what is wrong."""
    world = World()
    operate, faults_of = prepare(world)
    error = None
    try:
        _testcapi.set_nomemory(n, n + 1 if alone else 0)
        operate()
    except BaseException as raised:
        _testcapi.remove_mem_hooks()
        error = raised.with_traceback(None)
    finally:
        _testcapi.remove_mem_hooks()
    faults = []
    if error is not None and not isinstance(error, MemoryError):
        faults.append(f"raised {error!r}")
    faults += faults_of(error)
    faults += world.faults()
    return error, faults


def play_all(names):
    threading.excepthook = sys.unraisablehook = print_nothing
    for name in names:
        if name not in IN_PYTHON or sys.version_info < (3, 12):
            play(name)
        print(name, flush=True)
