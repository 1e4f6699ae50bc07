# Whole columns of int64.

cdef class Columns:
    cdef list buffers
    cdef const int64_t* data[8]
    cdef int width
    cdef int64_t count
