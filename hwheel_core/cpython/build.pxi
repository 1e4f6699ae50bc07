# A description of this build, for `hwheel --version` and bug reports. A debug build (HWHEEL_DEBUG=1) also counts live objects.


DEBUG = bool(HW_DEBUG)


def build_text():
    cython = f"{HW_CYTHON >> 24}.{HW_CYTHON >> 16 & 255}.{HW_CYTHON >> 8 & 255}"
    return f"{'debug' if HW_DEBUG else 'release'} build, {HW_COMPILER.decode()} with {HW_FLAGS.decode()}, Cython {cython}"


BUILD = build_text()
del build_text


cdef enum:
    LIVE_TIMERS
    LIVE_TASKS              # only tasks that were added to a timer
    LIVE_BATCHES
    LIVE_WATCHERS           # entries of the watch lists of purgatories


cdef int64_t live[4]


cdef inline void debug_count(int what, int64_t change) noexcept nogil:
    if HW_DEBUG:
        hw_count_add(&live[what], change)
