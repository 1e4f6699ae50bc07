# Fields of TimerBatch.

cdef class TimerBatch:
    cdef Batch* batch
    cdef object owner           # a weak reference to the BaseTimer: a pending batch does not keep its timer alive
    cdef object callback_       # None once nothing is pending
    cdef object remaining       # after close(): an array of the indices that have not run, in order of expiration; else None
