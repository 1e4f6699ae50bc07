# Fields of TimerGroup and of the tasks that a group creates.

cdef class GroupTask(TimerTask):
    cdef Member member

cdef class GroupTermsTask(TermsTask):
    cdef Member member

cdef class GroupPeriodicTask(PeriodicTask):
    cdef Member member

cdef class TimerGroup:
    cdef readonly BaseTimer timer
    cdef Group* group
    cdef object __weakref__
