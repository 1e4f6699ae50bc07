# Fields of the helpers that only deal with CPython.

cdef struct ReentrantLock:
    uintptr_t owner         # the thread that has it; 0: nobody has
    int64_t depth           # how many times; its owner's alone
    uintptr_t waiting       # a list of the locks that threads wait on, a reference; 0: nobody ever waited
    uintptr_t process       # which the rest is said of; see reentrant_lock.pxi

cdef class RLock:
    cdef ReentrantLock mutex

cdef extern from *:
    """
    /* The Arrow C data interface: a stable ABI, defined by its specification, made to be declared by who uses it. */
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
    cdef object keeper          # a memoryview
    cdef ArrowArray arrow       # or what was taken out of a capsule; its release is NULL: nothing was
