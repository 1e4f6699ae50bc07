# Structs of the helpers for CPython: a lock, and buffers of int64.

cdef struct ReentrantLock:
    uintptr_t owner         # the thread that holds the lock; 0: free
    int64_t depth           # how often the owner has acquired it; only the owner uses this
    uintptr_t waiting       # a reference to the list of waiters; 0: no thread has waited yet
    uintptr_t process       # the process generation of the other fields: see reentrant_lock.pxi

cdef class RLock:
    cdef ReentrantLock mutex

cdef extern from *:
    """
    /* The Arrow C data interface: a stable ABI, which its specification asks users to declare themselves. */
    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    struct ArrowSchema {
        const char *format, *name, *metadata;
        int64_t flags, n_children;
        struct ArrowSchema **children, *dictionary;
        void (*release)(struct ArrowSchema *);
        void *private_data;
    };
    struct ArrowArray {
        int64_t length, null_count, offset, n_buffers, n_children;
        const void **buffers;
        struct ArrowArray **children, *dictionary;
        void (*release)(struct ArrowArray *);
        void *private_data;
    };
    #endif
    """
    cdef struct ArrowSchema:
        const char* format
        ArrowSchema* dictionary
        void (*release)(ArrowSchema*) noexcept
    cdef struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        const void** buffers
        void (*release)(ArrowArray*) noexcept

cdef class Int64Buffer:
    cdef const char* data
    cdef int64_t count
    cdef Py_ssize_t stride      # in bytes
    cdef object keeper          # keeps `data` alive: a memoryview ...
    cdef ArrowArray arrow       # ... or the array from a capsule; release is NULL if there was no capsule
