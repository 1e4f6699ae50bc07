# Structs of a task: plain C.

cdef enum TaskState:
    TASK_NEW                # never added and never cancelled
    TASK_PENDING            # in a bucket, in Wheel.flush, in Wheel.due, in Timer.ready or in an inbox
    TASK_EXPIRED            # handed out to be run
    TASK_CANCELLED

cdef enum TaskFlags:
    TASK_HAD_CALLBACK = 1   # was created with a callback: once it has expired, it cannot be added again
    TASK_OWN_RUN = 2        # a subclass overrides run(): may be added again
    TASK_ONE_ARGUMENT = 4   # `arguments` is the only argument, not a tuple
    TASK_KEYWORDS = 8       # the last item of `arguments` is a dict of keyword arguments
    TASK_REPEATS = 16       # call_every: returns to the wheel after each run
    TASK_ALARM = 32         # wakes a container: exempt from max_pending, and may be added again while drain() waits
    TASK_MISSED = 64        # was too late to run; guarded by the GIL
    TASK_WRITABLE = 4096    # dump() has checked that it can be pickled; guarded by the GIL
    TASK_MEMBER = 0x7FFF0000    # the task was created by a group; these bits hold Member.task_offset

cdef enum:
    TASK_MEMBER_SHIFT = 16

cdef struct Task:
    Entry entry
    uintptr_t owner         # Timer*, or 0; set once (hw_load without the lock)
    int64_t delay_ms
    int64_t deadline_ms
    int state               # TaskState (hw_peek without the lock)
    int flags               # TaskFlags; written in the task's critical section (hw_peek elsewhere)
