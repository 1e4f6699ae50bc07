# A handle as an entry of the wheel: by which tick it is placed, and how an entry leads back to the handle.
#
# The loop's time, a float of seconds, is cut into ticks of 1/4096 s: a power of two, because then going from one to the
# other is exact. A handle stands in the bucket of the tick that its deadline lies in.

cdef enum:
    TICKS_PER_S = 4096

cdef double LAST_TICK = 1 << 50         # 8,700 years; math.inf is placed there

cdef Py_ssize_t loop_entry_offset = 0   # of LoopHandle.task

cdef LoopHandle sample_handle = LoopHandle.__new__(LoopHandle)
loop_entry_offset = <char*>&sample_handle.task - <char*><PyObject*>sample_handle
sample_handle = None


cdef inline int64_t tick_of(double time_s) noexcept nogil:
    cdef double ticks = floor(time_s * TICKS_PER_S)
    if not ticks < LAST_TICK:           # also NaN
        ticks = LAST_TICK
    return <int64_t>ticks if ticks > 0 else 0       # before time began: due in any case


cdef inline bint tick_is_of_all(int64_t tick) noexcept nogil:
    """A tick of all times before, or after, those that are cut into ticks: by it they cannot be told apart."""
    return tick <= 0 or tick >= LAST_TICK


cdef inline LoopHandle entry_handle(const Entry* entry):
    return <LoopHandle><PyObject*>(<const char*>entry - loop_entry_offset)


cdef inline double entry_deadline(const Entry* entry) noexcept:
    return (<LoopHandle><PyObject*>(<const char*>entry - loop_entry_offset)).deadline


cdef inline double entry_added(const Entry* entry) noexcept:
    return (<LoopHandle><PyObject*>(<const char*>entry - loop_entry_offset)).added
