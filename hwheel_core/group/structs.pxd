# Structs of a group: plain C.

cdef struct Member:
    # A task's place in its group. Only tasks that a group has made have one, behind all that other tasks are.
    Member* prev
    Member* next            # NULL: it has left the group
    Group* group            # one reference, as long as the task lives; NULL: no group has made it
    int64_t number          # MEMBER_STEP times the how-many-th of its group it is, and how many bytes before it its task lies

cdef enum:
    MEMBER_STEP = 65536

cdef struct Group:
    Member members          # the head of a circular list, in the order in which they joined
    int64_t count           # of them
    int64_t joined          # how many ever did
    int64_t references      # its Python object and every task that it has made (hw_count_add)
    int closed              # it makes no more
