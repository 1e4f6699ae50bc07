# The classes behind hwheel.Timer: the latch of join(), the elastic pool of threads, and the callback of expired timers.

cdef class Latch:
    cdef object gate            # a threading.Lock, which is free once the latch is set
    cdef int is_set             # hw_flag

cdef class ThreadPool:
    cdef ReentrantLock lock     # guards the fields from `queue` to `leaving`
    cdef object queue           # a deque of jobs
    cdef dict idle              # {worker: None}; the last one gets the next job, so that the others may end
    cdef set starting           # workers whose threads have not reached the loop
    cdef int64_t running        # threads in the loop
    cdef readonly int64_t taken     # jobs that a thread has begun
    cdef int64_t taken_at_check
    cdef int check_scheduled    # hw_peek
    cdef bint leaving
    cdef int forked             # this process is a child, and the pool is its parent's (hw_peek)
    cdef bint daemon
    cdef int64_t minimum, initial
    cdef double idle_timeout_s
    cdef object call_later, on_forked

cdef class Worker:              # a thread of a pool
    cdef ThreadPool pool
    cdef object thread          # its threading.Thread
    cdef object wake            # a threading.Lock, which is released when the idle worker receives a job
    cdef object job             # the received job

cdef class TimerExpiry:
    cdef dict pools             # {daemon: pool}
