# Structs of a task: plain C.

cdef enum TaskState:
    TASK_NEW                # never added, never cancelled
    TASK_PENDING            # linked: in a bucket, in Wheel.flush, in Wheel.due or in Timer.ready; or it is in an inbox
    TASK_EXPIRED            # handed out to be run
    TASK_CANCELLED

cdef enum TaskFlags:
    TASK_HAD_CALLBACK = 1   # spent once it has expired
    TASK_OWN_RUN = 2        # a subclass with a run() of its own: may be added again
    TASK_ONE_ARGUMENT = 4   # `arguments` is the only argument itself and no tuple
    TASK_KEYWORDS = 8       # the last item of `arguments` is a dict of keywords
    TASK_REPEATS = 16       # call_every: goes back into the wheel after it ran
    TASK_ALARM = 32         # a container's: needs no place under max_pending, and may come again while drain() waits
    TASK_MISSED = 64        # it was too late to run; set and cleared with the GIL
    TASK_WRITABLE = 4096    # dump() has found that it can be written; set with the GIL
    TASK_MEMBER = 0x7FFF0000    # of a group: how many bytes behind the task its Member lies (task_member); 0: it has none

cdef struct Task:
    Entry entry
    uintptr_t owner         # Timer*, or 0; set once and stays until the task dies (read without lock)
    int64_t delay_ms
    int64_t deadline_ms
    int state               # TaskState (hw_peek without lock)
    int flags               # TaskFlags; written in the critical section of the task, looked at elsewhere (task_flags)
