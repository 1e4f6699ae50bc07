"""hwheel.h for Cython: ``from hwheel.c_api cimport hwheel_api, hwheel_import``. The header documents each function."""

from libc.stdint cimport int32_t, int64_t, uint32_t

cdef extern from "hwheel.h" nogil:
    enum:
        HWHEEL_API_VERSION
        HWHEEL_OK
        HWHEEL_NO_MEMORY
        HWHEEL_BAD_TIME
        HWHEEL_PENDING
        HWHEEL_NOT_PENDING
        HWHEEL_BUSY
    const int64_t HWHEEL_NEVER
    ctypedef struct hwheel_wheel:
        pass
    struct hwheel_entry
    ctypedef void (*hwheel_callback)(hwheel_wheel* wheel, hwheel_entry* entry) noexcept nogil
    struct hwheel_entry:
        hwheel_callback callback
        void* data
    void hwheel_entry_init(hwheel_entry* entry, hwheel_callback callback, void* data)
    bint hwheel_is_pending(const hwheel_entry* entry)
    ctypedef struct hwheel_api:
        uint32_t version
        uint32_t size
        hwheel_wheel* (*create)(int64_t tick, int32_t wheel_size, int64_t now) noexcept nogil
        int (*destroy)(hwheel_wheel* wheel) noexcept nogil
        int (*reserve)(hwheel_wheel* wheel, int64_t delay) noexcept nogil
        int (*add)(hwheel_wheel* wheel, hwheel_entry* entry, int64_t deadline) noexcept nogil
        int (*move)(hwheel_wheel* wheel, hwheel_entry* entry, int64_t deadline) noexcept nogil
        int (*cancel)(hwheel_wheel* wheel, hwheel_entry* entry) noexcept nogil
        int64_t (*advance)(hwheel_wheel* wheel, int64_t now, int32_t limit) noexcept nogil
        int64_t (*next)(hwheel_wheel* wheel) noexcept nogil
        int64_t (*count)(const hwheel_wheel* wheel) noexcept nogil
        int64_t (*now)(const hwheel_wheel* wheel) noexcept nogil
        int64_t (*clear)(hwheel_wheel* wheel, hwheel_callback each) noexcept nogil
        const char* (*check)(const hwheel_wheel* wheel) noexcept nogil

cdef extern from "hwheel.h":
    const hwheel_api* hwheel_import() except NULL
