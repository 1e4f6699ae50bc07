# Structs of a group: plain C.
#
# A group links its tasks in a list of its own, beside the wheel's lists, so a task that expires or is cancelled leaves it in
# O(1). The timer's lock guards the list. A task of call_every stays in its group until it is cancelled, also while it runs.
#
# The struct is freed with the last reference to it, from its Python object or from a task that it has created. So a group can
# be dropped without a word to its tasks.

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
        # A task's place in its group. It lies behind the other fields of a task that a group has created.
        Member* prev
        Member* next            # NULL: the task has left the group
        Group* group            # a reference, as long as the task lives; NULL until the task is set up
        uint64_t number         # members of a group are numbered in the order in which they join
        uint64_t task_offset    # distance in bytes from the Task to its Member
    cdef struct Group:
        Member members          # head of a circular list, in the order in which the tasks joined
        int64_t count           # number of members
        int64_t joined          # number of members ever
        int64_t references      # its Python object and every task that it has created (hw_count_add)
        int closed              # it creates no more tasks
