# Fields of TimerBatch.

cdef class TimerBatch:
    cdef Batch* batch
    cdef object owner           # a weak reference to the BaseTimer: that, and not the batch, is what a pending batch's timer is of
    cdef object callback_
    cdef object remaining       # after close(): the indices that had not run, in order of their time
