# cython: language_level=3
"""A wheel of the C API for tests in Python.

Each entry has its own memory, which is freed when the entry is called, cancelled, or cleared, so that a sanitizer detects
a later access.
"""

from hwheel.c_api cimport *
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

cdef const hwheel_api* hw = hwheel_import()

OK, NO_MEMORY, BAD_TIME = HWHEEL_OK, HWHEEL_NO_MEMORY, HWHEEL_BAD_TIME
PENDING, NOT_PENDING, BUSY, NEVER = HWHEEL_PENDING, HWHEEL_NOT_PENDING, HWHEEL_BUSY, HWHEEL_NEVER

cdef struct Numbered:
    hwheel_entry entry
    int64_t number


cdef class Wheel:
    """A wheel of numbered entries. An expired entry appends its number to `called`, and calls on_call(number) if it is set."""

    cdef hwheel_wheel* wheel
    cdef dict pending
    cdef public list called
    cdef public object on_call

    def __cinit__(self, int64_t tick=1, int32_t wheel_size=0, int64_t now=0):
        self.wheel = hw.create(tick, wheel_size, now)
        if self.wheel is NULL:
            raise ValueError("create returned NULL")
        self.pending, self.called, self.on_call = {}, [], None

    def __dealloc__(self):
        if self.wheel is not NULL:
            hw.clear(self.wheel, free_entry)
            hw.destroy(self.wheel)

    def add(self, int64_t number, int64_t deadline):
        cdef Numbered* one
        cdef int status
        if number in self.pending:
            one = <Numbered*><size_t>self.pending[number]
            return hw.add(self.wheel, &one.entry, deadline)
        one = <Numbered*>malloc(sizeof(Numbered))
        hwheel_entry_init(&one.entry, on_due, <void*>self)
        one.number = number
        status = hw.add(self.wheel, &one.entry, deadline)
        if status == HWHEEL_OK:
            self.pending[number] = <size_t>one
        else:
            assert not hwheel_is_pending(&one.entry)
            free(one)
        return status

    def move(self, int64_t number, int64_t deadline):
        cdef hwheel_entry none
        if number not in self.pending:
            hwheel_entry_init(&none, on_due, NULL)
            return hw.move(self.wheel, &none, deadline)
        return hw.move(self.wheel, &(<Numbered*><size_t>self.pending[number]).entry, deadline)

    def cancel(self, int64_t number):
        cdef hwheel_entry none
        cdef Numbered* one
        cdef int cancelled
        if number not in self.pending:
            hwheel_entry_init(&none, on_due, NULL)
            return hw.cancel(self.wheel, &none)
        one = <Numbered*><size_t>self.pending.pop(number)
        cancelled = hw.cancel(self.wheel, &one.entry)
        assert not hwheel_is_pending(&one.entry)
        free(one)
        return cancelled

    def advance(self, int64_t now, int32_t limit=0):
        cdef int64_t count
        with nogil:
            count = hw.advance(self.wheel, now, limit)
        return count

    def clear(self):
        cdef int64_t count
        with nogil:
            count = hw.clear(self.wheel, on_due)
        return count

    def destroy(self):
        cdef int status = hw.destroy(self.wheel)
        if status == HWHEEL_OK:
            self.wheel = NULL
        return status

    def reserve(self, int64_t delay):
        return hw.reserve(self.wheel, delay)

    def next(self):
        return hw.next(self.wheel)

    def now(self):
        return hw.now(self.wheel)

    def check(self):
        cdef const char* fault = hw.check(self.wheel)
        return None if fault is NULL else fault.decode()

    def swap_first_word(self, int64_t number, size_t word):
        """Overwrite the memory of a pending entry, and return the previous word, which undoes the change."""
        cdef size_t* words = <size_t*><size_t>self.pending[number]
        before, words[0] = words[0], word
        return before

    def __len__(self):
        return hw.count(self.wheel)


cdef void free_entry(hwheel_wheel* wheel, hwheel_entry* entry) noexcept nogil:
    free(<Numbered*>entry)


cdef void on_due(hwheel_wheel* wheel, hwheel_entry* entry) noexcept with gil:
    cdef Numbered* one = <Numbered*>entry
    self = <Wheel>entry.data
    number = one.number
    assert not hwheel_is_pending(entry) and (<Wheel>self).wheel is wheel
    del (<Wheel>self).pending[number]
    free(one)
    self.called.append(number)
    if self.on_call is not None:
        self.on_call(number)
