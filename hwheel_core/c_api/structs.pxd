# A wheel for programs in C and Cython, without a lock: see hwheel.h.

cdef extern from "c_api/hwheel.h" nogil:
    enum:
        HWHEEL_API_VERSION
        HWHEEL_OK
        HWHEEL_NO_MEMORY
        HWHEEL_BAD_TIME
        HWHEEL_PENDING
        HWHEEL_NOT_PENDING
        HWHEEL_BUSY
    const int64_t HWHEEL_NEVER
    const char* HWHEEL_CAPSULE
    ctypedef struct hwheel_wheel:
        pass
    struct hwheel_entry
    ctypedef void (*hwheel_callback)(hwheel_wheel*, hwheel_entry*) noexcept nogil
    struct hwheel_entry:
        hwheel_callback callback
    ctypedef struct hwheel_api:
        uint32_t version
        uint32_t size
        hwheel_wheel* (*create)(int64_t, int32_t, int64_t) noexcept nogil
        int (*destroy)(hwheel_wheel*) noexcept nogil
        int (*reserve)(hwheel_wheel*, int64_t) noexcept nogil
        int (*add)(hwheel_wheel*, hwheel_entry*, int64_t) noexcept nogil
        int (*move)(hwheel_wheel*, hwheel_entry*, int64_t) noexcept nogil
        int (*cancel)(hwheel_wheel*, hwheel_entry*) noexcept nogil
        int64_t (*advance)(hwheel_wheel*, int64_t, int32_t) noexcept nogil
        int64_t (*next)(hwheel_wheel*) noexcept nogil
        int64_t (*count)(const hwheel_wheel*) noexcept nogil
        int64_t (*now)(const hwheel_wheel*) noexcept nogil
        int64_t (*clear)(hwheel_wheel*, hwheel_callback) noexcept nogil
        const char* (*check)(const hwheel_wheel*) noexcept nogil

cdef struct OpenWheel:
    # The struct behind hwheel_wheel. An hwheel_entry begins with an Entry.
    Wheel wheel
    Entry late              # entries that were due when added; the next advance calls them
    Entry running           # entries of `late` that the current advance still has to call
    int64_t now             # the time of the last advance
    int64_t round_up        # added to a deadline, so that its tick is not before it
    int64_t pending
    int busy                # a callback is running
