# Structs of a group: plain C.
#
# A group links its tasks in its own list, in addition to the wheel's lists. So a task that expires or is cancelled leaves the
# group in O(1). The timer's lock guards the list. A task of call_every stays in its group until it is cancelled, also while it
# runs.
#
# The Python object of a group and each task that the group has created hold a reference to the struct. The last one frees it.
# So the Python object can be freed while the group still has tasks.

cdef extern from *:
    """
    struct Member {
        struct Member *prev, *next;
        struct Group *group;
        uint64_t number : 48, task_offset : 16;
    };
    struct Group {
        struct Member members;
        int64_t count, joined, references;
        int closed;
    };
    """
    cdef struct Member:
        # A task's place in its group. In a task that a group has created, it follows the other fields.
        Member* prev
        Member* next            # NULL: the task has left the group
        Group* group            # a reference, as long as the task lives; NULL until the task is set up
        uint64_t number         # members of a group are numbered in the order in which they join
        uint64_t task_offset    # distance in bytes from the Task to its Member
    cdef struct Group:
        Member members          # head of a circular list, in the order in which the tasks joined
        int64_t count           # number of members
        int64_t joined          # number of tasks that have ever joined
        int64_t references      # its Python object and every task that it has created (hw_count_add)
        int closed              # no more tasks join
